/** A gateway that is killed while a tool runs for a response: no tool is called twice. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { startToolServer, type ToolServer, weatherTools } from '../support/tool-server.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ responses: 'absent' });
let server: ToolServer;
let upstream = '';

beforeAll(async () => {
  upstream = await provider.listen();
  server = await startToolServer();
});
afterEach(killAll);
afterAll(async () => {
  killAll();
  await provider.close();
  await server.close();
  folder.remove();
});

const start = (run: string): Promise<ServedGateway> =>
  serve({
    dataDir: join(folder.path, run),
    env: {
      LLAMACPP_BASE_URL: upstream,
      MCP_SERVERS: JSON.stringify([{ name: 'Weather', slug: 'weather', url: server.url }]),
    },
  });

const tools = [{ type: 'mcp', server_label: 'sky', server_url: 'gateway://weather', require_approval: 'never' }];
const request = { model: 'llamacpp/simulated-small', input: 'What is the weather in Paris?', tools };

/** The response of a gateway that is killed while its tool runs, after the next start has ended it. */
async function afterKill(run: string, more: object) {
  const called = Promise.withResolvers<void>();
  server.calls.length = 0;
  server.answer((_name, { city }) => {
    called.resolve();
    return server.calls.length === 1
      ? new Promise(() => {})
      : { content: [{ type: 'text', text: `sunny in ${city}` }] };
  });
  const first = await start(run);
  const answer = await ask(first.url, '/v1/responses', { json: { ...request, background: true, ...more } });
  const id = /"id":"(resp_[0-9a-f]+)"/.exec(await firstPart(answer))?.[1] ?? '';
  await called.promise;
  first.process.kill('SIGKILL');
  await first.process.exited;
  const { url } = await start(run);
  await (await ask(url, `/v1/responses/${id}?stream=true`)).text();
  return JSON.parse(await (await ask(url, `/v1/responses/${id}`)).text());
}

async function firstPart(answer: Response): Promise<string> {
  const part = await answer.body?.getReader().read();
  return Buffer.from(part?.value ?? []).toString();
}

it('a background response is resumed, and the call that had begun is reported as failed', async () => {
  const made = await afterKill('resumed', {});
  expect(made).toMatchObject({ status: 'completed' });
  expect(made.output.map(({ type }: { type: string }) => type)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
  expect(made.output[1]).toMatchObject({ status: 'failed', error: expect.stringContaining('is not known') });
  expect(made.output[2].content[0].text).toContain('is not known');
  expect(server.calls).toHaveLength(1);
});

it('a tool that states that it is idempotent is called again', async () => {
  server.list(...weatherTools.map((tool) => ({ ...tool, annotations: { idempotentHint: true } })));
  const made = await afterKill('idempotent', {});
  server.list(...weatherTools);
  expect(made.output[1]).toMatchObject({ status: 'completed', output: 'sunny in Paris' });
  expect(server.calls).toHaveLength(2);
});

it('a stream that has begun has failed, and its call too', async () => {
  const made = await afterKill('stream', { stream: true });
  expect(made).toMatchObject({ status: 'failed', error: { code: 'gateway_stopped' } });
  expect(made.output[1]).toMatchObject({
    type: 'mcp_call',
    status: 'failed',
    error: expect.stringContaining('is not known'),
  });
  expect(server.calls).toHaveLength(1);
});
