import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { main } from '../support/main-program.ts';
import { ask, killAll, serve, startProcess, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ responses: 'absent' });
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

async function chancery(...args: string[]): Promise<void> {
  const command = startProcess({ command: [process.execPath, main], args, cwd: folder.path });
  const { code } = await command.exited;
  expect(code, command.stderr).toBe(0);
}

it('a gateway starts from the restored backup of another one that was running, with its keys', async () => {
  const env = { LLAMACPP_BASE_URL: await provider.listen() };
  const first = await serve({ dataDir: join(folder.path, 'first'), env });
  const created = await ask(first.url, '/admin/auth-keys', { json: { name: 'kept' } });
  const { value: key } = (await created.json()) as { value: string };
  expect(key).toMatch(/./);
  const chat = (url: string) =>
    ask(url, '/v1/chat/completions', {
      key,
      json: { model: 'llamacpp/simulated-small', messages: [{ role: 'user', content: 'Hello!' }] },
    });
  let backedUp = false;
  const load = (async () => {
    while (!backedUp) expect((await chat(first.url)).status).toBe(200);
  })();
  await chancery('log', 'backup', '--from', 'first/log', '--to', 'copy');
  backedUp = true;
  await load;
  await chancery('log', 'restore', '--from', 'copy', '--data-dir', 'second');
  const second = await serve({ dataDir: join(folder.path, 'second'), env });
  expect((await chat(second.url)).status).toBe(200);
  expect((await ask(second.url, '/v1/models', { key: `${key}x` })).status).toBe(401);
}, 60_000);
