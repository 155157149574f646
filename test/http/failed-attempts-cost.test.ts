/** An unusable answer is paid for all the same: its reported usage is recorded, charged and recalculated. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { saved } from '../support/several-providers.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  user,
  withGateway,
} from '../support/with-gateway.ts';

let first: ScriptedProvider;
let second: ScriptedProvider;
const gateway = withGateway(async () => {
  first = await startScriptedProvider();
  second = await startScriptedProvider();
  return {
    simulated: false,
    env: {
      LLAMACPP_A_BASE_URL: first.url,
      LLAMACPP_B_BASE_URL: second.url,
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(async () => {
  await first.close();
  await second.close();
});

const usage = { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 };
const choices = [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }];
const chunk = (facts: object) => `data: ${JSON.stringify(facts)}\n\n`;
const whole = JSON.stringify({ object: 'chat.completion', choices, usage });
const streamed = [
  chunk({ choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: 'stop' }] }),
  chunk({ choices: [], usage }),
  'data: [DONE]\n\n',
].join('');

function says(provider: ScriptedProvider, type: string, text: string): void {
  provider.script((_request, response) => response.writeHead(200, { 'content-type': type }).end(text));
}

const setPrice = (perMillion: number) =>
  gateway.post(
    '/admin/model-pricing-overrides',
    { selector: '/', pricing: { input_per_mtok: perMillion, output_per_mtok: perMillion } },
    { method: 'PUT' },
  );

beforeAll(async () => {
  const targets = ['a', 'b'].map((name) => ({ provider: `llamacpp-${name}`, model: 'scripted' }));
  await saved(gateway, { source: 'both', targets, strategy: 'failover' });
  expect((await setPrice(1)).status).toBe(200);
});

async function limited(userPath: string): Promise<void> {
  const path = encodeURIComponent(userPath);
  expect((await gateway.post(`/admin/budgets/${path}/daily`, { amount: 1 }, { method: 'PUT' })).status).toBe(200);
  const limit = { user_path: userPath, limit_key: { period: 'hour' }, max_tokens: 1000 };
  expect((await gateway.post('/admin/rate-limits', limit, { method: 'PUT' })).status).toBe(200);
}

/** The spending in the path's budget, and the use of its limit. */
async function spentAt(userPath: string) {
  const rows = [
    ...(await json(await gateway.fetch('/admin/budgets'))).budgets,
    ...(await json(await gateway.fetch('/admin/rate-limits'))).rate_limits,
  ].filter(({ user_path }) => user_path === userPath);
  return { spent: rows[0].spent, tokens: rows[1].tokens_used };
}

const ask = (userPath: string, path: string, body: object) =>
  gateway.post(path, body, { headers: { 'x-gateway-user-path': userPath } });

const chat = { model: 'both', messages: user('hi') };
const PATH = '/v1/chat/completions';

async function usagesOf(answer: Response) {
  const events = await eventsOfExchange(gateway, exchangeOf(answer));
  return events
    .filter(({ type }) => type === 'usage.recorded')
    .map(({ data }) => [data.failedAttempt, data.provider, data.totalTokens, data.totalCost]);
}

describe('the cost of a failed attempt', () => {
  test.each<[string, string, object, string, string]>([
    ['answered with JSON in place of a stream', PATH, { ...chat, stream: true }, 'application/json', whole],
    [
      'returned no choice for a translated message',
      '/v1/messages',
      { ...chat, max_tokens: 9 },
      'application/json',
      JSON.stringify({ choices: [], usage }),
    ],
    [
      'answered with an error in place of an answer',
      PATH,
      chat,
      'application/json',
      JSON.stringify({ error: { message: 'upstream failed', code: 503 }, usage }),
    ],
    [
      'broke off before its stream was sent to the client',
      PATH,
      { ...chat, stream: true },
      'text/event-stream',
      `${chunk({ choices: [], usage })}${chunk({ error: { message: 'overloaded', code: 503 } })}`,
    ],
  ])('is recorded beside that of the next attempt: one %s', async (what, path, body, type, text) => {
    const userPath = `/${what.replaceAll(/\W+/g, '-')}`;
    await limited(userPath);
    says(first, type, text);
    const isStream = 'stream' in body;
    says(second, isStream ? 'text/event-stream' : 'application/json', isStream ? streamed : whole);
    const answer = await ask(userPath, path, body);
    expect({ status: answer.status, text: await answer.text() }).toMatchObject({ status: 200 });
    expect(await usagesOf(answer)).toEqual([
      [1, 'llamacpp-a', 30, '30000'],
      [undefined, 'llamacpp-b', 30, '30000'],
    ]);
    await expect.poll(() => spentAt(userPath)).toEqual({ spent: 0.00006, tokens: 60 });
  });

  test('is recorded when there is no other target, and nothing stays reserved', async () => {
    await limited('/alone');
    says(first, 'application/json', whole);
    const answer = await ask('/alone', PATH, { ...chat, model: 'llamacpp-a/scripted', stream: true });
    expect(await errorOf(answer, 502)).toMatchObject({ provider: 'llamacpp-a' });
    const events = await eventsUntil(gateway, `stream=exchange-${exchangeOf(answer)}`, ({ type }) => {
      return type === 'exchange.failed';
    });
    expect(events.map(({ type }) => type).slice(-4)).toEqual([
      'attempt.started',
      'attempt.failed',
      'usage.recorded',
      'exchange.failed',
    ]);
    await expect.poll(() => spentAt('/alone')).toEqual({ spent: 0.00003, tokens: 30 });
    // With a reservation left, a budget as small as the spending would refuse another such answer.
    expect((await gateway.post('/admin/budgets/%2Falone/daily', { amount: 0.00003 }, { method: 'PUT' })).status).toBe(
      200,
    );
    const refused = await errorOf(await ask('/alone', PATH, chat), 429);
    expect(refused.message).not.toContain('reserved');
  });

  test('is not estimated where no usage is reported', async () => {
    says(first, 'text/html', '<p>nothing</p>');
    says(second, 'application/json', whole);
    const answer = await ask('/quiet', PATH, chat);
    await answer.text();
    expect(await usagesOf(answer)).toEqual([[undefined, 'llamacpp-b', 30, '30000']]);
  });

  test('is recalculated on its own', async () => {
    says(first, 'application/json', whole);
    says(second, 'text/event-stream', streamed);
    const answer = await ask('/anew', PATH, { ...chat, stream: true });
    expect(dataOf(await answer.text()).length).toBeGreaterThan(0);
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    for (const price of [2, 3, 1]) {
      expect((await setPrice(price)).status).toBe(200);
      const recalculated = await json(
        await gateway.post('/admin/usage/recalculate-pricing', { confirmation: 'recalculate', user_path: '/anew' }),
      );
      expect(recalculated).toMatchObject({ matched: 2, recalculated: 2 });
    }
    let corrections = 0;
    const events = await eventsUntil(gateway, stream, ({ type }) => {
      if (type === 'usage.recalculated') corrections += 1;
      return corrections === 6;
    });
    const recorded = events.filter(({ type }) => type === 'usage.recorded').map(({ id }) => id);
    const received = events.filter(({ type }) => type === 'usage.recalculated').map(({ data }) => data);
    for (const id of recorded) {
      const own = received.filter(({ usageId }) => usageId === id);
      expect(own.map((one) => [one.previousTotalCost, one.totalCost])).toEqual([
        ['30000', '60000'],
        ['60000', '90000'],
        ['90000', '30000'],
      ]);
    }
  });
});
