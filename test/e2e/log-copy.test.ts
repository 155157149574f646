/** A gateway whose log is moved: from files to an engine, and from there into other files. */
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { hasChdb } from '../analytics/embedded.ts';
import { main } from '../support/main-program.ts';
import { startEventStore } from '../support/start-eventstore.ts';
import {
  ask,
  killAll,
  type ServedGateway,
  serve,
  startProcess,
  stopGateway,
  temporaryFolder,
} from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider();
const engine = await startEventStore();
afterAll(async () => {
  killAll();
  await engine.stop();
  await provider.close();
  folder.remove();
});

async function copy(from: string, to: string): Promise<Record<string, unknown>> {
  const args = ['log', 'copy', '--from', from, '--to', to, '--json'];
  const command = startProcess({ command: [process.execPath, main], args, cwd: folder.path });
  const { code } = await command.exited;
  expect([code, command.stderr]).toEqual([0, '']);
  return JSON.parse(command.stdout);
}

const jsonOf = async (answer: Response): Promise<Record<string, unknown>> => {
  expect(answer.ok).toBe(true);
  return (await answer.json()) as Record<string, unknown>;
};

it(`a moved log has the keys, stored responses and reports, on EventStoreDB (${engine.kind}) and in files`, async () => {
  const base = {
    LLAMACPP_BASE_URL: await provider.listen(),
    ANALYTICS_ENABLED: String(hasChdb),
    ANALYTICS_HTTP_PORT: '0',
  };
  const start = (dataDir: string, url: string) =>
    serve({ dataDir: join(folder.path, dataDir), env: { ...base, LOG_URL: url } });
  const url = engine.url('moved');
  const files = await start('first', `file:${join(folder.path, 'first', 'log')}`);
  const { value: key } = (await jsonOf(await ask(files.url, '/admin/auth-keys', { json: { name: 'kept' } }))) as {
    value: string;
  };
  const respond = async (gateway: ServedGateway, input: string, previous?: unknown) => {
    const json = { model: 'llamacpp/simulated-small', input, previous_response_id: previous };
    return jsonOf(await ask(gateway.url, '/v1/responses', { key, json }));
  };
  const first = await respond(files, 'Hello!');
  await copy('first/log', url);
  const second = await respond(files, 'And now?', first['id']);
  const shown = async ({ url: gateway }: ServedGateway) => ({
    keys: await jsonOf(await ask(gateway, '/admin/auth-keys')),
    stored: await jsonOf(await ask(gateway, `/v1/responses/${second['id']}`, { key })),
    input: await jsonOf(await ask(gateway, `/v1/responses/${second['id']}/input_items`, { key })),
    requests: hasChdb ? (await jsonOf(await ask(gateway, '/admin/usage/summary')))['total_requests'] : undefined,
  });
  const patience = { timeout: 30_000, interval: 200 };
  if (hasChdb) await expect.poll(() => shown(files), patience).toMatchObject({ requests: 2 });
  const before = await shown(files);
  await stopGateway(files);
  expect(await copy('first/log', url)).toMatchObject({ before: expect.stringMatching(/[1-9]/) });

  const onEngine = await start('first', url);
  await expect.poll(() => shown(onEngine), patience).toEqual(before);
  await respond(onEngine, 'Go on.', second['id']);
  await stopGateway(onEngine);

  await copy('first/log', 'other/log');
  const moved = await start('second', `file:${join(folder.path, 'other', 'log')}`);
  const after = hasChdb ? { ...before, requests: 3 } : before;
  await expect.poll(() => shown(moved), patience).toEqual(after);
  await respond(moved, 'Once more.', second['id']);
  await stopGateway(moved);
}, 150_000);
