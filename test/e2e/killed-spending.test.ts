/** What the requests cost that a gateway was serving when it was killed. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import type { Answered } from '../support/answered.ts';
import { someOf } from '../support/seed.ts';
import { ask, killAll, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ models: ['m'] });
const MODEL = 'llamacpp/m';
const CHAT = '/v1/chat/completions';
/** US dollars for one token of an answer. */
const TOKEN = 0.001;
const request = { model: MODEL, max_tokens: 50, messages: [{ role: 'user', content: 'Write 20 words.' }] };
let upstream = '';

beforeAll(async () => {
  upstream = await provider.listen();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

const start = (name: string, workers: string, env: Record<string, string> = {}) =>
  serve({
    dataDir: join(folder.path, `${name}-${workers}`),
    env: { LLAMACPP_BASE_URL: upstream, LOG_URL: '', GATEWAY_WORKERS: workers, ...env },
  });

const pricing = { input_per_mtok: 1, output_per_mtok: TOKEN * 1_000_000 };

async function put(url: string, path: string, json: object): Promise<void> {
  const answer = await ask(url, path, { method: 'PUT', json });
  expect({ path, ok: answer.ok }).toEqual({ path, ok: true });
}

async function budgetsOf(url: string): Promise<Map<string, Answered>> {
  const { budgets } = (await (await ask(url, '/admin/budgets')).json()) as Answered;
  return new Map(budgets.map((row: Answered) => [row.user_path, row]));
}

/** What is reserved in the budget of the path, once it is more than this. Each worker reads the log at its own pace. */
async function reservedIn(url: string, path: string, least: number): Promise<number> {
  let reserved = 0;
  const read = async () => {
    reserved = (await budgetsOf(url)).get(path)?.reserved;
    return reserved;
  };
  await expect.poll(read).toBeGreaterThan(least);
  return reserved;
}

describe.each(someOf(['1', '2']))('requests that a killed gateway with %s workers was serving', (workers) => {
  it('cost the recorded usage, else the estimate of the recorded text, else what was reserved', async () => {
    const first = await start('kept', workers);
    const { url } = first;
    await put(url, '/admin/model-pricing-overrides', { selector: MODEL, pricing });
    for (const path of ['hanging', 'streamed', 'nearly-whole', 'whole'])
      await put(url, `/admin/budgets/%2F${path}/daily`, { amount: 10 });
    const send = (path: string, body: object) =>
      ask(url, CHAT, {
        json: { ...request, ...body },
        headers: { 'x-gateway-user-path': path },
      });
    await (await send('/whole', {})).text();
    const streamed = await send('/streamed', { stream: true, simulate: { holdAfterChunks: 8 } });
    await streamed.body?.getReader().read();
    const messages = [{ role: 'user', content: 'Write 200 words.' }];
    const nearlyWhole = await send('/nearly-whole', { messages, stream: true, simulate: { holdAfterChunks: 46 } });
    let text = '';
    for await (const piece of nearlyWhole.body?.values({ preventCancel: true }) ?? []) {
      text += Buffer.from(piece).toString();
      if (text.split('data: ').length > 46) break;
    }
    const before = provider.requests.length;
    const hanging = Array.from({ length: 30 }, () => send('/hanging', { simulate: { hang: true } }).catch(() => {}));
    await expect.poll(() => provider.requests.length, { timeout: 15_000 }).toBe(before + 30);
    const reserved = await reservedIn(url, '/hanging', 30 * 50 * TOKEN);
    await expect.poll(async () => (await budgetsOf(url)).get('/whole')?.reserved).toBe(0);
    const whole = (await budgetsOf(url)).get('/whole')?.spent;
    first.process.kill('SIGKILL');
    await first.process.exited;
    await Promise.all(hanging);

    const second = await start('kept', workers);
    // A worker closes what the one before it has left open as soon as it has taken over.
    await expect.poll(async () => (await budgetsOf(second.url)).get('/streamed')?.reserved).toBe(0);
    await expect.poll(async () => (await budgetsOf(second.url)).get('/nearly-whole')?.reserved).toBe(0);
    await expect.poll(async () => (await budgetsOf(second.url)).get('/hanging')?.reserved).toBe(0);
    const rows = await budgetsOf(second.url);
    expect(rows.get('/hanging')).toMatchObject({ spent: reserved, reserved: 0 });
    expect(rows.get('/whole')).toMatchObject({ spent: whole, reserved: 0 });
    const estimated = rows.get('/streamed')?.spent;
    expect(estimated).toBeGreaterThan(0);
    expect(estimated).toBeLessThan(50 * TOKEN);
    // Four bytes are estimated as a token, and the words have more.
    expect(rows.get('/nearly-whole')?.spent).toBeGreaterThan(45 * TOKEN);
    expect(rows.get('/nearly-whole')?.spent).toBeLessThan(51 * TOKEN);
    const again = await ask(second.url, '/admin/usage/recalculate-pricing', { json: { confirmation: 'recalculate' } });
    expect(again.status, await again.text()).toBe(200);
    expect((await budgetsOf(second.url)).get('/hanging')).toMatchObject({ spent: reserved });
    second.process.kill('SIGTERM');
    await second.process.exited;
  }, 60_000);

  it('cost what was reserved where the log does not hold the text', async () => {
    const first = await start('not-kept', workers, { LOGGING_LOG_BODIES: 'false' });
    const { url } = first;
    await put(url, '/admin/model-pricing-overrides', { selector: MODEL, pricing });
    await put(url, '/admin/budgets/%2Funread/daily', { amount: 10 });
    const streamed = await ask(url, CHAT, {
      json: { ...request, stream: true, simulate: { holdAfterChunks: 8 } },
      headers: { 'x-gateway-user-path': '/unread' },
    });
    await streamed.body?.getReader().read();
    const reserved = await reservedIn(url, '/unread', 50 * TOKEN);
    first.process.kill('SIGKILL');
    await first.process.exited;

    const second = await start('not-kept', workers);
    await expect.poll(async () => (await budgetsOf(second.url)).get('/unread')?.spent).toBe(reserved);
    expect((await budgetsOf(second.url)).get('/unread')).toMatchObject({ reserved: 0 });
    second.process.kill('SIGTERM');
    await second.process.exited;
  }, 60_000);

  it('cost the estimate of all their parallel calls, and are on record as one failed exchange', async () => {
    const ofOllama = { OLLAMA_BASE_URL: new URL(upstream).origin };
    const first = await start('parallel', workers, ofOllama);
    const { url } = first;
    const dear = { ...pricing, input_per_mtok: 100 };
    await put(url, '/admin/model-pricing-overrides', { selector: 'ollama/m', pricing: dear });
    provider.control.always({ words: 30, tokensPerChunk: 1, holdAfterChunks: 8 });
    const messages = [{ role: 'user', content: 'Tell me everything. '.repeat(100) }];
    const exchanges: string[] = [];
    for (const n of [1, 3]) {
      await put(url, `/admin/budgets/%2Fparallel%2F${n}/daily`, { amount: 10 });
      const answer = await ask(url, CHAT, {
        json: { model: 'ollama/m', max_tokens: 50, n, stream: true, messages },
        headers: { 'x-gateway-user-path': `/parallel/${n}` },
      });
      exchanges.push(answer.headers.get('x-exchange-id') ?? '');
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      while ([...text.matchAll(/"delta":{"content":"[^"]/g)].length < 7 * n) {
        const next = await reader?.read();
        if (next === undefined || next.done) throw new Error(`the answer ended early: ${text}`);
        text += next.value;
      }
    }
    first.process.kill('SIGKILL');
    await first.process.exited;
    provider.control.clear();
    provider.control.release();

    const second = await start('parallel', workers, ofOllama);
    for (const n of [1, 3])
      await expect.poll(async () => (await budgetsOf(second.url)).get(`/parallel/${n}`)?.reserved).toBe(0);
    const rows = await budgetsOf(second.url);
    const one = rows.get('/parallel/1')?.spent;
    expect(one).toBeGreaterThan(0.05);
    expect(rows.get('/parallel/3')?.spent / one).toBeCloseTo(3, 1);
    for (const exchange of exchanges) {
      const events = await (await ask(second.url, `/admin/audit/events?log_id=${exchange}`)).text();
      expect(events.match(/"attempt.started"/g)).toHaveLength(1);
      expect(events.match(/"exchange.failed"/g)).toHaveLength(1);
    }
    second.process.kill('SIGTERM');
    await second.process.exited;
  }, 60_000);
});
