/** Costs of responses that a provider completes in the background: reserved until they end, recorded once. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { at, MODEL, setBudget, setPrice, spentOf, usagesIn, withLastingProvider } from '../support/batches.ts';
import { newKey } from '../support/managed-keys.ts';
import {
  dataOf,
  errorOf,
  eventsUntil,
  exchangeOf,
  json,
  type LoggedEvent,
  readUntil,
} from '../support/with-gateway.ts';

const lasting = withLastingProvider();
const { provider } = lasting;
const responses = { path: '/v1/responses' };
const hold = () => provider.control.always({ holdBackground: 'in_progress' }, responses);
const model = `openai/${MODEL}`;
const hello = { model, input: 'Reply with exactly: hello', background: true };

const create = (body: object = {}, init: RequestInit = {}) =>
  lasting.gateway.fetch('/v1/responses', { ...init, json: { ...hello, ...body } });

async function created(body: object = {}, init: RequestInit = {}) {
  const answer = await create(body, init);
  expect(answer.status, await answer.clone().text()).toBe(200);
  return { id: String((await json(answer)).id), exchange: exchangeOf(answer) };
}

const retrieve = (id: string, init: RequestInit = {}) => lasting.gateway.fetch(`/v1/responses/${id}`, init);

const untilSettled = (exchange: string): Promise<LoggedEvent[]> =>
  eventsUntil(lasting.gateway, `stream=exchange-${exchange}`, ({ type }) => type === 'usage.settled');

beforeAll(async () => {
  await setPrice(lasting.gateway, model, { per_request: 1, input_per_mtok: 0, output_per_mtok: 0 });
});

describe('a background response of a native provider', () => {
  it('is recorded once with its cost when its client polls it to its end', async () => {
    hold();
    const { id, exchange } = await created();
    expect(['queued', 'in_progress']).toContain((await json(await retrieve(id))).status);
    provider.control.release();
    const polled = await Promise.all(Array.from({ length: 8 }, () => retrieve(id).then(json)));
    expect(polled.map(({ status }) => status)).toContain('completed');
    const events = await lasting.recordedAfterStop(exchange);
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type.startsWith('usage.'))).toEqual([
      'usage.deferred',
      'usage.recorded',
      'usage.settled',
    ]);
    expect(events.at(-2)?.data).toMatchObject({
      provider: 'openai',
      model: MODEL,
      endpoint: '/v1/responses',
      source: 'provider',
      inputTokens: expect.any(Number),
      totalCost: '1000000000',
    });
    expect(events.at(-1)?.data).toEqual({ kind: 'response', workId: id, outcome: 'completed' });
    // The output is served without another request to the provider.
    const requestCount = provider.requests.length;
    expect(await json(await retrieve(id))).toMatchObject({ status: 'completed' });
    expect(provider.requests.length).toBe(requestCount);
  });

  it('is recorded and stored even when its client never polls', async () => {
    const key = await newKey(lasting.gateway, { user_path: '/team/quiet' });
    const { id, exchange } = await created({}, { headers: { authorization: `Bearer ${key.value}` } });
    const events = await untilSettled(exchange);
    expect(usagesIn(events)).toMatchObject([{ source: 'provider', totalCost: '1000000000' }]);
    const usage = events.find(({ type }) => type === 'usage.recorded');
    expect(usage).toMatchObject({ actor: `key:${key.id}`, userPath: '/team/quiet' });
    const requestCount = provider.requests.length;
    const kept = await json(await retrieve(id));
    expect(kept).toMatchObject({ id, status: 'completed' });
    expect(kept.output[0].content[0].text).toBe('hello');
    expect(provider.requests.length).toBe(requestCount);
  });

  it('keeps its budget reservation until it ends, so that concurrent ones stay within the budget', async () => {
    const { gateway } = lasting;
    await setBudget(gateway, '/many', 3);
    hold();
    const answers = await Promise.all(Array.from({ length: 6 }, () => create({}, at('/many'))));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 429, 429, 429]);
    expect(await errorOf(await create({}, at('/many')), 429)).toMatchObject({ code: 'budget_exceeded' });
    const made = answers.filter(({ status }) => status === 200).map(exchangeOf);
    provider.control.release();
    for (const exchange of made) await untilSettled(exchange);
    expect(await spentOf(gateway, '/many')).toBe(3);
    await errorOf(await create({}, at('/many')), 429);
  });

  it('is recorded when the client of its stream disconnected before the end', async () => {
    provider.control.next({ holdAfterChunks: 8 }, responses);
    const left = new AbortController();
    const answer = await create({ input: 'Write 30 words', stream: true }, { signal: left.signal });
    const [{ response }] = dataOf(await readUntil(answer, 'output_text.delta'));
    left.abort();
    await eventsUntil(
      lasting.gateway,
      `stream=exchange-${exchangeOf(answer)}`,
      ({ type }) => type === 'usage.deferred',
    );
    provider.control.release();
    const events = await untilSettled(exchangeOf(answer));
    expect(events.map(({ type }) => type).filter((type) => /client|usage/.test(type))).toEqual([
      'client.disconnected',
      'usage.deferred',
      'usage.recorded',
      'usage.settled',
    ]);
    expect(events.at(-1)?.data).toMatchObject({ workId: response.id, outcome: 'completed' });
    expect(usagesIn(events)).toMatchObject([{ source: 'provider' }]);
  });

  it('that was read to the end of its stream is recorded like any other', async () => {
    const answer = await create({ stream: true });
    expect(await answer.text()).toContain('response.completed');
    const types = (await lasting.recordedAfterStop(exchangeOf(answer))).map(({ type }) => type);
    expect(types.filter((type) => type.startsWith('usage.'))).toEqual(['usage.recorded']);
  });

  it('that is cancelled costs an estimate, since its provider reports no usage', async () => {
    hold();
    const { id, exchange } = await created({ input: 'x'.repeat(4000) });
    await retrieve(id);
    const cancelled = await lasting.gateway.fetch(`/v1/responses/${id}/cancel`, { method: 'POST' });
    expect(await json(cancelled)).toMatchObject({ status: 'cancelled' });
    const events = await untilSettled(exchange);
    expect(events.at(-1)?.data).toMatchObject({ outcome: 'cancelled' });
    const [usage] = usagesIn(events);
    expect(usage).toMatchObject({ estimated: true, source: 'unknown', inputTokens: null, outputTokens: null });
    expect(usage?.estimatedInputTokens).toBeGreaterThan(1000);
    expect(usage?.estimatedInputTokens).toBeLessThan(1200);
    expect(usage?.totalCost).toBe('1000000000');
  });

  it('that is deleted before its end is cancelled, and recorded before the deletion', async () => {
    hold();
    const { id, exchange } = await created();
    expect((await lasting.gateway.fetch(`/v1/responses/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect(usagesIn(await untilSettled(exchange))).toHaveLength(1);
    expect(provider.requests.some(({ path }) => path === `/v1/responses/${id}/cancel`)).toBe(true);
    await errorOf(await retrieve(id), 404);
  });

  it('that its provider no longer has costs the estimate', async () => {
    hold();
    const { id, exchange } = await created({ max_output_tokens: 77 });
    await fetch(`${lasting.url}/responses/${id}`, {
      method: 'DELETE',
      headers: { authorization: 'Bearer sk-lasting' },
    });
    const events = await untilSettled(exchange);
    expect(events.at(-1)?.data).toMatchObject({ outcome: 'lost' });
    expect(usagesIn(events)).toMatchObject([{ estimated: true, estimatedOutputTokens: 77, totalCost: '1000000000' }]);
  });

  it('that failed costs nothing unless its provider reports usage', async () => {
    provider.control.next({ failResponse: true, usage: false }, responses);
    const { exchange } = await created();
    const events = await untilSettled(exchange);
    expect(events.at(-1)?.data).toMatchObject({ outcome: 'failed' });
    expect(usagesIn(events)).toEqual([]);
  });

  it('is polled as well when it was created on the API of the provider itself', async () => {
    const answer = await lasting.gateway.fetch('/p/openai/v1/responses', { json: { ...hello, model: MODEL } });
    expect(answer.status).toBe(200);
    expect(usagesIn(await untilSettled(exchangeOf(answer)))).toMatchObject([
      { endpoint: '/p/openai/v1/responses', model: MODEL, source: 'provider' },
    ]);
  });
});

describe('after a restart', () => {
  it.each([
    ['from its snapshots', () => {}],
    ['from the log alone', (dataDir: string) => rmSync(join(dataDir, 'views.db'))],
  ])('it is reserved, followed and recorded: %s', async (name, lose) => {
    const path = `/again/${name.replaceAll(' ', '-')}`;
    await setBudget(lasting.gateway, path, 2);
    hold();
    const first = await created({}, at(path));
    await created({}, at(path));
    await lasting.restart(lose);
    await errorOf(await create({}, at(path)), 429);
    provider.control.release();
    expect(usagesIn(await untilSettled(first.exchange))).toMatchObject([{ totalCost: '1000000000' }]);
    expect(await json(await retrieve(first.id))).toMatchObject({ status: 'completed' });
  });
});
