/** Background responses survive the gateway: killed, or stopped, and started again on the same data. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { someOf } from '../support/seed.ts';
import { readUntil } from '../support/with-gateway.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ responses: 'absent' });
let upstream = '';
let runs = 0;

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
  provider.control.clear();
  provider.control.release();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

const start = (run: number, env: Record<string, string> = {}): Promise<ServedGateway> =>
  serve({
    dataDir: join(folder.path, String(run)),
    env: { LLAMACPP_BASE_URL: upstream, DRAIN_TIMEOUT: '0s', ...env },
  });

const model = 'llamacpp/simulated-small';
const chat = { path: '/v1/chat/completions' };
const calls = () => provider.requests.filter(({ method, path }) => method === 'POST' && path === chat.path).length;

const get = async (url: string, id: string) => JSON.parse(await (await ask(url, `/v1/responses/${id}`)).text());

async function promised(url: string, body: object): Promise<string> {
  const before = calls();
  const answer = await ask(url, '/v1/responses', { json: { model, background: true, ...body } });
  const { id, status } = JSON.parse(await answer.text());
  expect(status).toBe('queued');
  await expect.poll(calls).toBe(before + 1);
  return id;
}

/** The response once it has ended: its stream ends when it does. */
async function ended(url: string, id: string) {
  await (await ask(url, `/v1/responses/${id}?stream=true`)).text();
  return get(url, id);
}

describe.each(someOf(['SIGKILL', 'SIGTERM'] as const))('after %s', (signal) => {
  async function again(gateway: ServedGateway, run: number): Promise<ServedGateway> {
    gateway.process.kill(signal);
    await gateway.process.exited;
    return start(run);
  }

  it('a response without output is completed', async () => {
    const run = ++runs;
    const first = await start(run);
    provider.control.next({ hang: true }, chat);
    const before = calls();
    const id = await promised(first.url, { input: 'Reply with exactly: hello' });
    const second = await again(first, run);
    const made = await ended(second.url, id);
    expect(made).toMatchObject({ id, status: 'completed', background: true });
    expect(made.output[0].content[0].text).toBe('hello');
    expect(calls()).toBe(before + 2);
    // It has ended now, and no further start resumes it.
    const third = await again(second, run);
    expect(await get(third.url, id)).toEqual(made);
    expect(calls()).toBe(before + 2);
  });

  it('a response with output has failed with a reason, and is not made twice', async () => {
    const run = ++runs;
    const first = await start(run);
    provider.control.next({ holdAfterChunks: 4 }, chat);
    const answer = await ask(first.url, '/v1/responses', {
      json: { model, background: true, stream: true, input: 'Write 50 words' },
    });
    const text = await readUntil(answer, 'output_text.delta');
    const id = /"id":"(resp_[0-9a-f]+)"/.exec(text)?.[1] ?? '';
    const before = calls();
    const second = await again(first, run);
    const failed = await get(second.url, id);
    expect(failed).toMatchObject({ id, status: 'failed' });
    expect(failed.error.message).toMatch(/stopped/);
    expect(failed.output[0].content[0].text.length).toBeGreaterThan(0);
    expect(calls()).toBe(before);
  });

  it('a response that was not yet resumed can be cancelled', async () => {
    const run = ++runs;
    const first = await start(run);
    provider.control.always({ hang: true }, chat);
    const id = await promised(first.url, { input: 'Reply with exactly: hello' });
    const second = await again(first, run);
    const cancelled = await ask(second.url, `/v1/responses/${id}/cancel`, { json: {} });
    expect(JSON.parse(await cancelled.text())).toMatchObject({ id, status: 'cancelled' });
    provider.control.clear();
    const third = await again(second, run);
    expect(await get(third.url, id)).toMatchObject({ id, status: 'cancelled' });
  });
});

it('a response without its request on the record fails with a reason', async () => {
  const run = ++runs;
  const capture = { LOGGING_LOG_BODIES: 'false' };
  const first = await start(run, capture);
  provider.control.next({ hang: true }, chat);
  const id = await promised(first.url, { input: 'Reply with exactly: hello' });
  first.process.kill('SIGKILL');
  await first.process.exited;
  const second = await start(run, capture);
  expect(await get(second.url, id)).toMatchObject({ id, status: 'failed', error: { code: 'gateway_stopped' } });
});
