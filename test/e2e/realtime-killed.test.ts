/** What realtime sessions cost whose gateway was killed: each response once. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type RealtimeProvider, startRealtimeProvider } from '../support/realtime-provider.ts';
import { openSocket } from '../support/response-socket.ts';
import { someOf } from '../support/seed.ts';
import { eventsUntil } from '../support/with-gateway.ts';
import { ask, killAll, MASTER_KEY, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const MODEL = 'openai/gpt-realtime';
const ofType = (type: string) => (message: { type: string }) => message.type === type;
let provider: RealtimeProvider;

beforeAll(async () => {
  provider = await startRealtimeProvider();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

const start = (workers: string, settings: Record<string, string> = {}, name = workers) =>
  serve({
    dataDir: join(folder.path, name),
    env: {
      OPENAI_BASE_URL: provider.url,
      OPENAI_API_KEY: 'sk-any',
      LOG_URL: '',
      GATEWAY_WORKERS: workers,
      ...settings,
    },
  });

async function put(url: string, path: string, json: object): Promise<void> {
  const answer = await ask(url, path, { method: 'PUT', json });
  expect({ path, ok: answer.ok }).toEqual({ path, ok: true });
}

async function budgetOf(url: string, path: string): Promise<Answered> {
  const { budgets } = (await (await ask(url, '/admin/budgets')).json()) as Answered;
  return budgets.find((row: Answered) => row.user_path === path);
}

describe.each(someOf(['1', '2']))('sessions of a killed gateway with %s workers', (workers) => {
  it('cost what their provider has reported, and the estimates of responses that had not ended', async () => {
    // The record of one of them has the size of the audio in its place.
    const settings = { REALTIME_RECORD_AUDIO: String(workers === '1') };
    const first = await start(workers, settings);
    // 0.05 dollars for each response.
    await put(first.url, '/admin/model-pricing-overrides', {
      ...{ selector: MODEL, pricing: { input_per_mtok: 0, output_per_mtok: 1000 } },
    });
    const sockets = [];
    for (const path of ['/idle', '/busy']) {
      await put(first.url, `/admin/budgets/${encodeURIComponent(path)}/daily`, { amount: 50 });
      const headers = { 'x-gateway-user-path': path };
      const socket = await openSocket(first.url, MASTER_KEY, { path: `/v1/realtime?model=${MODEL}`, headers });
      socket.send({ type: 'response.create' });
      await socket.until(ofType('response.done'));
      sockets.push(socket);
    }
    provider.endsResponses = false;
    const [, busy] = sockets;
    for (let responses = 0; responses < 2; responses++) {
      busy?.send({ type: 'response.create' });
      await busy?.until(ofType('response.output_audio.delta'));
    }
    first.process.kill('SIGKILL');
    await first.process.exited;

    const { url, process } = await start(workers, settings);
    provider.endsResponses = true;
    let ends = 0;
    const fetch = (path: string, init?: RequestInit) => ask(url, path, init);
    const events = await eventsUntil({ fetch }, 'types=exchange.failed,usage.recorded', ({ type }) => {
      if (type === 'exchange.failed') ends += 1;
      return ends === 2;
    });
    expect(events.filter(ofType('exchange.failed')).map(({ data }) => data.reason)).toEqual([
      ...['gateway_stopped', 'gateway_stopped'],
    ]);
    await expect.poll(async () => (await budgetOf(url, '/idle')).reserved).toBe(0);
    await expect.poll(async () => (await budgetOf(url, '/busy')).reserved).toBe(0);
    // Four tokens are estimated of the second response, and of the third one.
    await expect.poll(async () => (await budgetOf(url, '/busy')).spent).toBeCloseTo(0.058, 6);
    expect((await budgetOf(url, '/idle')).spent).toBeCloseTo(0.05, 6);
    process.kill('SIGTERM');
    await process.exited;
  }, 60_000);

  it('cost their reservation where no message is on record', async () => {
    provider.endsResponses = false;
    const settings = { LOGGING_LOG_BODIES: 'false' };
    const name = `${workers}-without-bodies`;
    const first = await start(workers, settings, name);
    await put(first.url, '/admin/model-pricing-overrides', {
      ...{ selector: MODEL, pricing: { input_per_mtok: 0, output_per_mtok: 1000 } },
    });
    await put(first.url, `/admin/budgets/${encodeURIComponent('/unread')}/daily`, { amount: 50 });
    const headers = { 'x-gateway-user-path': '/unread' };
    const socket = await openSocket(first.url, MASTER_KEY, { path: `/v1/realtime?model=${MODEL}`, headers });
    socket.send({ type: 'response.create' });
    await socket.until(ofType('response.output_audio.delta'));
    const { reserved } = await budgetOf(first.url, '/unread');
    expect(reserved).toBeGreaterThan(0);
    first.process.kill('SIGKILL');
    await first.process.exited;
    provider.endsResponses = true;
    const { url, process } = await start(workers, settings, name);
    await expect.poll(async () => (await budgetOf(url, '/unread')).spent, { timeout: 20_000 }).toBeCloseTo(reserved, 6);
    await expect.poll(async () => (await budgetOf(url, '/unread')).reserved).toBe(0);
    process.kill('SIGTERM');
    await process.exited;
  }, 60_000);
});
