/** A stream that its client abandons before the provider reports usage costs an estimate, marked as one. */
import { beforeAll, describe, expect, it } from 'vitest';
import { at, setBudget, setPrice, spentOf, usagesIn } from '../support/batches.ts';
import {
  errorOf,
  eventsUntil,
  exchangeOf,
  json,
  type LoggedEvent,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const register = (url: string) => ({
  LLAMACPP_BASE_URL: url,
  ANTHROPIC_BASE_URL: url,
  ANTHROPIC_API_KEY: 'sk-ant-simulated',
});
const gateway = withGateway({ register });
const MODEL = 'llamacpp/simulated-small';
const NATIVE = 'anthropic/simulated-small';
const prompt = 'tell me everything you know now '.repeat(40);

const untilUsage = (exchange: string): Promise<LoggedEvent[]> =>
  eventsUntil(gateway, `stream=exchange-${exchange}`, ({ type }) => type === 'usage.recorded');

/** Pieces of the answer that the client has received when it disconnects. */
const READ = 30;

async function readPieces(answer: Response, mark: string): Promise<void> {
  const reader = answer.body?.getReader();
  let text = '';
  while (text.split(mark).length <= READ) {
    const next = await reader?.read();
    if (next === undefined || next.done) throw new Error(`the answer ended too early: ${text}`);
    text += Buffer.from(next.value).toString();
  }
}

/** Aborts a stream once it holds the mark `READ` times. @returns its usage */
async function abandon(path: string, body: object, mark: string, init: RequestInit = {}) {
  gateway.simulated.control.next({ words: 100, tokensPerChunk: 1, holdAfterChunks: 40 });
  const client = new AbortController();
  const answer = await gateway.post(path, { model: MODEL, stream: true, ...body }, { ...init, signal: client.signal });
  await readPieces(answer, mark);
  client.abort();
  const events = await untilUsage(exchangeOf(answer));
  gateway.simulated.control.release();
  const [usage] = usagesIn(events);
  return { usage, events };
}

beforeAll(async () => {
  for (const model of [MODEL, NATIVE]) {
    await setPrice(gateway, model, { input_per_mtok: 1000, output_per_mtok: 1000 });
  }
});

describe.each([
  ['/v1/chat/completions', { messages: user(prompt) }, '"content"'],
  ['/v1/responses', { input: prompt }, '"type":"response.output_text.delta"'],
  ['/v1/messages', { messages: user(prompt), max_tokens: 100 }, '"type":"text_delta"'],
  ['/v1/completions', { prompt }, '"text"'],
  ['/p/llamacpp/v1/chat/completions', { model: 'simulated-small', messages: user(prompt) }, '"content"'],
] as const)('a stream of %s that its client abandons', (path, body, mark) => {
  it('costs its prompt and what was received; counts that the provider did not report are null', async () => {
    const { usage } = await abandon(path, body, mark);
    expect(usage).toMatchObject({
      estimated: true,
      source: 'unknown',
      partial: true,
      inputTokens: null,
      outputTokens: null,
      totalTokens: null,
      raw: null,
    });
    const { estimatedInputTokens: input, estimatedOutputTokens: output } = usage ?? {};
    expect(input).toBeGreaterThan(280);
    expect(input).toBeLessThan(400);
    expect(output).toBeGreaterThanOrEqual(READ);
    expect(output).toBeLessThan(300);
    expect(Number(usage?.totalCost)).toBe((Number(input) + Number(output)) * 1_000_000);
    expect(usage?.caveat).toMatch(/^estimated: /);
  });
});

describe('a native stream of messages that its client abandons', () => {
  it('costs the reported input and the received output; counts are as reported', async () => {
    const body = { model: NATIVE, messages: user(prompt), max_tokens: 100 };
    const { usage } = await abandon('/v1/messages', body, '"type":"text_delta"');
    expect(usage).toMatchObject({ estimated: true, source: 'provider', partial: true, outputTokens: 1 });
    expect(usage?.estimatedInputTokens).toBe(usage?.inputTokens);
    expect(usage?.estimatedOutputTokens).toBeGreaterThanOrEqual(READ);
    expect(usage?.caveat).toMatch(/^estimated: /);
  });
});

describe('a budget', () => {
  it('counts every abandoned stream, and refuses once it is spent', async () => {
    await setBudget(gateway, '/leaving', 100);
    let costs = 0;
    for (let times = 0; times < 3; times++) {
      const body = { messages: user(prompt) };
      const { usage } = await abandon('/v1/chat/completions', body, '"content"', at('/leaving'));
      expect(Number(usage?.totalCost)).toBeGreaterThan(250_000_000);
      costs += Number(usage?.totalCost) / 1e9;
    }
    expect(await spentOf(gateway, '/leaving')).toBeCloseTo(costs, 9);
    await setBudget(gateway, '/leaving', costs);
    const refused = await gateway.post('/v1/chat/completions', { model: MODEL, messages: user('hi') }, at('/leaving'));
    expect(await errorOf(refused, 429)).toMatchObject({ code: 'budget_exceeded' });
  });
});

describe('a limit of tokens', () => {
  it('counts the estimate of an abandoned stream', async () => {
    const limit = { user_path: '/counted', limit_key: { period: 'hour' }, max_tokens: 300 };
    expect((await gateway.post('/admin/rate-limits', limit, { method: 'PUT' })).status).toBe(200);
    await abandon('/v1/chat/completions', { messages: user(prompt) }, '"content"', at('/counted'));
    const refused = await gateway.post('/v1/chat/completions', { model: MODEL, messages: user('hi') }, at('/counted'));
    expect(await errorOf(refused, 429)).toMatchObject({ code: 'rate_limit_exceeded' });
  });
});

describe('a request that its client abandons before the first chunk', () => {
  it('costs its prompt, since the provider was working on it', async () => {
    gateway.simulated.control.next({ hang: true });
    const client = new AbortController();
    const body = { model: MODEL, stream: true, messages: user(`early: ${prompt}`) };
    const answer = gateway.post('/v1/chat/completions', body, {
      signal: client.signal,
      headers: { 'x-request-id': 'left-early' },
    });
    await expect.poll(() => gateway.lastProviderRequest().body?.includes('early: ')).toBe(true);
    client.abort();
    await expect(answer).rejects.toThrow();
    const [usage] = usagesIn(
      await eventsUntil(gateway, 'types=usage.recorded', ({ requestId }) => requestId === 'left-early'),
    ).slice(-1);
    expect(usage).toMatchObject({ estimated: true, estimatedOutputTokens: 0, inputTokens: null });
    expect(usage?.estimatedInputTokens).toBeGreaterThan(280);
  });
});

describe('a complete answer', () => {
  it('costs what its provider reports, without an estimate', async () => {
    const answer = await gateway.post('/v1/chat/completions', { model: MODEL, stream: true, messages: user('hi') });
    await answer.text();
    const [usage] = usagesIn(await untilUsage(exchangeOf(answer)));
    expect(usage).toMatchObject({ source: 'provider', inputTokens: expect.any(Number) });
    expect(usage).not.toHaveProperty('estimated');
  });

  it('is estimated when it is a stream whose provider reports no usage', async () => {
    gateway.simulated.control.next({ usage: false });
    const answer = await gateway.post('/v1/chat/completions', { model: MODEL, stream: true, messages: user(prompt) });
    await answer.text();
    const [usage] = usagesIn(await untilUsage(exchangeOf(answer)));
    expect(usage).toMatchObject({ estimated: true, source: 'unknown', outputTokens: null });
    expect(usage).not.toHaveProperty('partial');
  });

  it('is estimated under /p/{provider} when the client did not request usage', async () => {
    const body = { model: 'simulated-small', stream: true, messages: user(prompt) };
    const answer = await gateway.post('/p/llamacpp/v1/chat/completions', body);
    await answer.text();
    const [usage] = usagesIn(await untilUsage(exchangeOf(answer)));
    expect(usage).toMatchObject({
      estimated: true,
      model: 'simulated-small',
      endpoint: '/p/llamacpp/v1/chat/completions',
    });
    expect(Number(usage?.totalCost)).toBeGreaterThan(0);
  });
});

describe('an estimate', () => {
  it('is priced again by a recalculation, like any other usage', async () => {
    const { events } = await abandon('/v1/chat/completions', { messages: user(prompt) }, '"content"');
    const usage = events.at(-1);
    const before = Number(usage?.data.totalCost);
    await setPrice(gateway, MODEL, { input_per_mtok: 2000, output_per_mtok: 2000 });
    const done = await gateway.fetch('/admin/usage/recalculate-pricing', { json: { confirmation: 'recalculate' } });
    expect(done.status, await done.clone().text()).toBe(200);
    expect(await json(done)).toMatchObject({ status: 'ok' });
    const corrected = await eventsUntil(
      gateway,
      `stream=${usage?.stream}`,
      ({ type, data }) => type === 'usage.recalculated' && data.usageId === usage?.id,
    );
    expect(Number(corrected.at(-1)?.data.totalCost)).toBe(before * 2);
    await setPrice(gateway, MODEL, { input_per_mtok: 1000, output_per_mtok: 1000 });
  });
});
