/** What a plugin changed in a request is kept when the gateway is killed and continues the request. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { isAlive, pluginFolder, source } from '../plugins/plugin-files.ts';
import { ask, killAll, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ responses: 'absent' });
const plugins = pluginFolder({
  'p.ts': source(
    `request({ headers }) {
       console.log('pid ' + process.pid);
       if (headers['x-team'] === 'a') return { model: 'llamacpp-two/simulated-small' };
     }`,
  ),
});
let upstream = '';

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
});
afterAll(async () => {
  await provider.close();
  folder.remove();
  plugins.remove();
});

it('a background response that is resumed goes to the model that the plugin selected', async () => {
  const env = { PLUGINS_ENABLED: 'true', PLUGINS_DIR: plugins.folder, DRAIN_TIMEOUT: '0s' };
  const start = () =>
    serve({
      dataDir: join(folder.path, 'data'),
      env: { LLAMACPP_ONE_BASE_URL: upstream, LLAMACPP_TWO_BASE_URL: upstream, ...env },
    });
  const first = await start();
  provider.control.next({ hang: true }, { path: '/v1/chat/completions' });
  const answer = await ask(first.url, '/v1/responses', {
    json: { model: 'llamacpp-one/simulated-small', background: true, input: 'Reply with exactly: hello' },
    headers: { 'x-team': 'a' },
  });
  const { id } = JSON.parse(await answer.text());
  const calls = () => provider.requests.filter(({ path }) => path === '/v1/chat/completions').length;
  await expect.poll(calls).toBe(1);
  const pid = Number(/pid (\d+)/.exec(first.process.stdout + first.process.stderr)?.[1]);
  expect(isAlive(pid)).toBe(true);
  first.process.kill('SIGKILL');
  await first.process.exited;
  await expect.poll(() => isAlive(pid)).toBe(false);

  const second = await start();
  const text = await (await ask(second.url, `/v1/responses/${id}?stream=true`)).text();
  expect(text).toContain('hello');
  const attempts = (await eventsIn(join(folder.path, 'data'))).filter(({ type }) => type === 'attempt.started');
  const providers = attempts.map(({ data }) => Reflect.get(Object(data), 'provider'));
  expect(providers.length).toBeGreaterThan(1);
  expect(new Set(providers)).toEqual(new Set(['llamacpp-two']));
});
