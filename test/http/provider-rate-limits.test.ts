/** 429 of providers: which credential and model pause, which target is called meanwhile, and what clients receive. */
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { saved, withProviders } from '../support/several-providers.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';

const models = [
  ...['plain', 'asks-to-wait', 'paused', 'free', 'told', 'streamed', 'many', 'two-keys', 'sdk', 'later', 'again'],
  ...['first', 'second', 'x', 'y', 'limited'],
];
const { gateway, provider, requestsTo, counted } = withProviders(
  { a: { models, responses: 'absent' }, b: { models }, keys: { models } },
  {
    env: {
      LLAMACPP_KEYS_API_KEY_2: 'another-key-for-tests',
      RETRY_MAX_RETRIES: '2',
      RETRY_INITIAL_BACKOFF: '2ms',
      CIRCUIT_BREAKER_FAILURE_THRESHOLD: '3',
    },
  },
);

const path = '/v1/chat/completions';
const chat = (model: string, more: object = {}) => ({ model, messages: user('Say hello.'), ...more });
const ask = (model: string, more: object = {}, headers = {}) => gateway.post(path, chat(model, more), { headers });
const limits = {
  'x-ratelimit-limit-requests': '60',
  'x-ratelimit-remaining-requests': '0',
  'x-ratelimit-reset-requests': '7s',
};

describe('a 429 of the only target', () => {
  it.each([{}, { stream: true }])('is forwarded after one call, with Retry-After: %j', async (more) => {
    const model = 'stream' in more ? 'streamed' : 'asks-to-wait';
    provider.a.control.always({ status: 429, retryAfter: 7, message: 'slow down', headers: limits }, { path });
    counted();
    const answer = await ask(`llamacpp-a/${model}`, more);
    expect(answer.headers.get('retry-after')).toBe('7');
    expect(answer.headers.get('x-should-retry')).toBeNull();
    expect(Object.fromEntries(answer.headers)).toMatchObject(limits);
    expect(await errorOf(answer, 429)).toMatchObject({ type: 'rate_limit_error', message: 'slow down' });
    expect(counted().a).toBe(1);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.filter(({ type }) => type.startsWith('attempt.')).map(({ type }) => type)).toEqual([
      'attempt.started',
      'attempt.failed',
    ]);
  });

  it('pauses the model, and no other model, for Retry-After', async () => {
    provider.a.control.next({ status: 429, retryAfter: 90 }, { path });
    await errorOf(await ask('llamacpp-a/paused'), 429);
    counted();
    const refused = await ask('llamacpp-a/paused');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(60);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(90);
    expect(refused.headers.get('x-should-retry')).toBeNull();
    expect(await errorOf(refused, 429)).toMatchObject({
      type: 'rate_limit_error',
      code: 'rate_limit_exceeded',
      provider: 'llamacpp-a',
    });
    for (const [endpoint, body] of [
      ['/v1/responses', { model: 'llamacpp-a/paused', input: 'hi' }],
      ['/v1/messages', { ...chat('llamacpp-a/paused'), max_tokens: 9 }],
      ['/v1/embeddings', { model: 'llamacpp-a/paused', input: 'hi' }],
      ['/v1/completions', { model: 'llamacpp-a/paused', prompt: 'hi' }],
    ] as const) {
      expect([endpoint, (await gateway.post(endpoint, body)).status]).toEqual([endpoint, 429]);
    }
    expect(counted().a).toBe(0);
    expect((await ask('llamacpp-a/free')).status).toBe(200);
    const events = await eventsOfExchange(gateway, exchangeOf(refused));
    expect(events.map(({ type }) => type)).toEqual(['request.received', 'model.resolved', 'request.refused']);
  });

  it('pauses for five minutes at most, which is also the Retry-After of the client', async () => {
    provider.a.control.next({ status: 429, retryAfter: 7200 }, { path });
    expect((await ask('llamacpp-a/later')).headers.get('retry-after')).toBe('300');
    const seconds = Number((await ask('llamacpp-a/later')).headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(250);
    expect(seconds).toBeLessThanOrEqual(300);
  });

  it('opens no circuit breaker', async () => {
    provider.a.control.always({ status: 429 }, { path });
    counted();
    for (let n = 0; n < 8; n++) await errorOf(await ask('llamacpp-a/many'), 429);
    expect(counted().a).toBe(8);
    provider.a.control.clear();
    expect((await ask('llamacpp-a/many')).status).toBe(200);
  });

  it('makes as many calls as the SDK of the client makes attempts', async () => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'test-master-key', maxRetries: 2 });
    provider.a.control.always({ status: 429, retryAfter: 0 }, { path });
    counted();
    await expect(client.chat.completions.create(chat('llamacpp-a/sdk') as never)).rejects.toThrow(
      OpenAI.RateLimitError,
    );
    expect(counted().a).toBe(3);
  });

  it('pauses one credential, while the others stay in use', async () => {
    const keysOf = () => requestsTo('keys').map(({ headers }) => headers.authorization);
    provider.keys.control.next({ status: 429, retryAfter: 60 }, { path });
    await errorOf(await ask('llamacpp-keys/two-keys'), 429);
    const [limited] = keysOf().slice(-1);
    for (let n = 0; n < 4; n++) expect((await ask('llamacpp-keys/two-keys')).status).toBe(200);
    const used = keysOf().slice(-4);
    expect(new Set(used).size).toBe(1);
    expect(used).not.toContain(limited);
    await ask('llamacpp-keys/free');
    await ask('llamacpp-keys/free');
    expect(keysOf().slice(-2)).toContain(limited);
  });

  it('is retried for a background response, since its client does not wait for it', async () => {
    provider.a.control.next({ status: 429, retryAfter: 0 }, { path });
    const calls = () => requestsTo('a').filter((request) => request.path === path).length;
    const before = calls();
    const body = { model: 'llamacpp-a/again', input: 'hi', background: true };
    const { id } = await json(await gateway.post('/v1/responses', body));
    const read = async () => (await json(await gateway.fetch(`/v1/responses/${id}`))).status;
    await expect.poll(read, { timeout: 5000 }).toBe('completed');
    expect(calls() - before).toBe(2);
  });
});

describe('a 429 of one of several targets', () => {
  beforeAll(async () => {
    const targets = (model: string) => ['llamacpp-a', 'llamacpp-b'].map((name) => ({ provider: name, model }));
    await saved(gateway, { source: 'both', targets: targets('first'), strategy: 'failover' });
    await saved(gateway, { source: 'busy', targets: targets('second'), strategy: 'failover' });
  });

  it('moves on to the next target, and does not call the paused one', async () => {
    provider.a.control.always({ status: 429, retryAfter: 60 }, { path });
    counted();
    expect((await ask('both')).status).toBe(200);
    expect(counted()).toMatchObject({ a: 1, b: 1 });
    expect((await ask('both')).status).toBe(200);
    expect(counted()).toMatchObject({ a: 0, b: 1 });
  });

  it('is forwarded when all of them are limited, and then none is called', async () => {
    for (const name of ['a', 'b'] as const) provider[name].control.always({ status: 429, retryAfter: 60 }, { path });
    counted();
    const answer = await ask('busy');
    expect(answer.headers.get('retry-after')).toBe('60');
    expect(answer.headers.get('x-should-retry')).toBeNull();
    await errorOf(answer, 429);
    expect(counted()).toMatchObject({ a: 1, b: 1 });
    const again = await ask('busy');
    expect(Number(again.headers.get('retry-after'))).toBeGreaterThan(30);
    await errorOf(again, 429);
    expect(counted()).toMatchObject({ a: 0, b: 0 });
  });
});

describe('x-should-retry', () => {
  beforeAll(async () => {
    const targets = ['llamacpp-a', 'llamacpp-b'].map((name) => ({ provider: name, model: 'x' }));
    await saved(gateway, { source: 'x', targets, strategy: 'failover' });
  });

  it.each([
    ['is false after the gateway has retried', 'llamacpp-b/plain', 503, 'false', 3],
    ['is false where the gateway does not retry', 'llamacpp-b/plain', 500, 'false', 1],
    ['is false after other targets have failed', 'x', 500, 'false', 1],
  ])('%s', async (_when, model, status, advice, calls) => {
    provider.a.control.always({ status }, { path });
    provider.b.control.always({ status }, { path });
    counted();
    const answer = await ask(model);
    expect(answer.headers.get('x-should-retry')).toBe(advice);
    await errorOf(answer, status);
    expect(counted().b).toBe(calls);
  });
});

describe("a provider's own limits", () => {
  it('are forwarded with an answer where the gateway has none', async () => {
    for (const more of [{}, { stream: true }]) {
      provider.a.control.next({ headers: { ...limits, 'x-internal': 'no' } }, { path });
      const answer = await ask('llamacpp-a/told', more);
      await answer.text();
      expect(Object.fromEntries(answer.headers)).toMatchObject(limits);
      expect(answer.headers.get('x-internal')).toBeNull();
    }
  });

  it('are not forwarded where the gateway has limits of its own', async () => {
    const rule = { user_path: '/limited', limit_key: { period: 'minute' }, max_requests: 100 };
    expect((await gateway.fetch('/admin/rate-limits', { method: 'PUT', json: rule })).status).toBeLessThan(300);
    const reported = { ...limits, 'x-ratelimit-remaining-tokens': '5' };
    const headers = { 'x-gateway-user-path': '/limited' };
    for (const [endpoint, body] of [
      [path, chat('llamacpp-a/limited')],
      ['/p/llamacpp-a/v1/chat/completions', chat('limited')],
    ] as const) {
      provider.a.control.next({ headers: reported });
      const answer = await gateway.post(endpoint, body, { headers });
      await answer.text();
      expect([endpoint, answer.headers.get('x-ratelimit-limit-requests')]).toEqual([endpoint, '100']);
      expect(answer.headers.get('x-ratelimit-remaining-tokens')).toBeNull();
    }
  });

  it('are not forwarded where a limit above the path of the key applies, whose amounts it may not read', async () => {
    const rule = { user_path: '/above', limit_key: { period: 'minute' }, max_requests: 100 };
    expect((await gateway.fetch('/admin/rate-limits', { method: 'PUT', json: rule })).status).toBeLessThan(300);
    const made = await json(await gateway.post('/admin/auth-keys', { name: 'below', user_path: '/above/below' }));
    const headers = { authorization: `Bearer ${made.value}` };
    const reported = { ...limits, 'anthropic-ratelimit-requests-limit': '5' };
    for (const [endpoint, body] of [
      [path, chat('llamacpp-a/limited')],
      ['/p/llamacpp-a/v1/chat/completions', chat('limited')],
    ] as const) {
      provider.a.control.next({ headers: reported });
      const answer = await gateway.post(endpoint, body, { headers });
      expect(answer.status).toBe(200);
      await answer.text();
      expect([endpoint, ...answer.headers.keys()].filter((name) => name.includes('ratelimit-'))).toEqual([]);
    }
  });
});
