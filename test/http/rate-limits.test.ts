/** Rate limits through HTTP: their administration and their enforcement. */
import { beforeAll, describe, expect, test } from 'vitest';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { errorOf, json, readUntil, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({
  env: { SET_RATE_LIMIT_DECLARED: 'rpm=100,tpm=5000,concurrent=3', SET_PROVIDER_RATE_LIMIT_LLAMACPP: 'rpm=100000' },
});
const MODEL = 'llamacpp/simulated-small';

interface Rule {
  readonly user_path?: string;
  readonly scope?: string;
  readonly subject?: string;
  readonly limit_key: { period?: string | number; period_seconds?: number };
  readonly max_requests?: number | null;
  readonly max_tokens?: number | null;
}

const put = (rule: Rule | Record<string, unknown>) => gateway.post('/admin/rate-limits', rule, { method: 'PUT' });
const remove = (rule: Record<string, unknown>) =>
  gateway.fetch('/admin/rate-limits', { method: 'DELETE', body: JSON.stringify(rule) });

async function row(subject: string, label = 'minute') {
  const { rate_limits } = await json(await gateway.fetch('/admin/rate-limits'));
  return rate_limits.find(
    (one: { subject: string; period_label: string }) => one.subject === subject && one.period_label === label,
  );
}

function chat(userPath: string, more: object = {}): Promise<Response> {
  const headers = { 'x-gateway-user-path': userPath };
  return gateway.post('/v1/chat/completions', { model: MODEL, messages: user('hello'), ...more }, { headers });
}

describe('a rate limit', () => {
  test('is created, and returned with its current counts', async () => {
    const answer = await put({ user_path: 'made', limit_key: { period: 'minute' }, max_requests: 5, max_tokens: 5000 });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"0"');
    const { rate_limits, server_time } = await json(answer);
    const made = rate_limits.find(({ subject }: { subject: string }) => subject === '/made');
    expect(made).toMatchObject({
      scope: 'user_path',
      subject: '/made',
      user_path: '/made',
      per_child: false,
      period_seconds: 60,
      period_label: 'minute',
      max_requests: 5,
      max_tokens: 5000,
      source: 'manual',
      revision: '0',
      requests_used: 0,
      requests_remaining: 5,
      tokens_used: 0,
      tokens_remaining: 5000,
      in_flight: 0,
    });
    expect(made.window_end).toBe(server_time);
    expect(Date.parse(made.window_end) - Date.parse(made.window_start)).toBe(60_000);
  });

  test.each([
    [{ user_path: '/kinds', limit_key: { period: 'hour' }, max_requests: 1 }, '/kinds', 'hour'],
    [{ scope: 'provider', subject: 'llamacpp', limit_key: { period: 'day' }, max_tokens: 1e9 }, 'llamacpp', 'day'],
    [{ scope: 'model', subject: 'some-model', limit_key: { period: '90' }, max_requests: 1 }, 'some-model', '90s'],
    [{ user_path: '/kinds', limit_key: { period: 'concurrent' }, max_requests: 2 }, '/kinds', 'concurrent'],
    [{ user_path: '/kinds', limit_key: { period_seconds: 0 }, max_requests: 3 }, '/kinds', 'concurrent'],
  ])('is created and removed: %j', async (rule, subject, label) => {
    expect((await put(rule)).status).toBe(200);
    expect(await row(subject, label)).toBeDefined();
    const { max_requests: _, max_tokens: __, ...name } = { max_requests: 0, max_tokens: 0, ...rule };
    expect((await remove(name)).status).toBe(200);
    expect(await row(subject, label)).toBeUndefined();
    expect(await errorOf(await remove(name), 404)).toMatchObject({ code: 'rate_limit_not_found' });
  });

  test.each([
    ['no limit', { user_path: '/bad', limit_key: { period: 'minute' } }, 'max_requests'],
    ['no request', { user_path: '/bad', limit_key: { period: 'minute' }, max_requests: 0 }, 'max_requests'],
    ['half a request', { user_path: '/bad', limit_key: { period: 'minute' }, max_requests: 1.5 }, 'max_requests'],
    ['tokens in text', { user_path: '/bad', limit_key: { period: 'minute' }, max_tokens: '5' }, 'max_tokens'],
    [
      'tokens at the same time',
      { user_path: '/bad', limit_key: { period: 'concurrent' }, max_tokens: 5 },
      'max_tokens',
    ],
    ['no period', { user_path: '/bad', max_requests: 1 }, 'limit_key.period'],
    [
      'two periods',
      { user_path: '/bad', limit_key: { period: 'day', period_seconds: 60 }, max_requests: 1 },
      'limit_key.period',
    ],
    [
      'a period of years',
      { user_path: '/bad', limit_key: { period_seconds: 1e9 }, max_requests: 1 },
      'limit_key.period_seconds',
    ],
    [
      'a path for a provider',
      { scope: 'provider', user_path: '/a', limit_key: { period: 'day' }, max_requests: 1 },
      'user_path',
    ],
    [
      'an unknown provider',
      { scope: 'provider', subject: 'nobody', limit_key: { period: 'day' }, max_requests: 1 },
      'subject',
    ],
    [
      'a model of an unknown provider',
      { scope: 'model', subject: 'nobody/x', limit_key: { period: 'day' }, max_requests: 1 },
      'subject',
    ],
    [
      'all models of a provider',
      { scope: 'model', subject: 'llamacpp/', limit_key: { period: 'day' }, max_requests: 1 },
      'subject',
    ],
    ['an unknown scope', { scope: 'label', subject: 'x', limit_key: { period: 'day' }, max_requests: 1 }, 'scope'],
    ['a bad path', { user_path: '/a/../b', limit_key: { period: 'day' }, max_requests: 1 }, 'user_path'],
    ['an unknown field', { user_path: '/a', limit_key: { period: 'day' }, max_requests: 1, burst: 3 }, 'burst'],
  ])('is refused with %s', async (_name, rule, param) => {
    expect(await errorOf(await put(rule), 400)).toMatchObject({ param });
  });

  test('that is declared has the source config, and cannot be changed here', async () => {
    expect(await row('/declared')).toMatchObject({ max_requests: 100, max_tokens: 5000, source: 'config' });
    expect(await row('/declared', 'concurrent')).toMatchObject({ max_requests: 3, source: 'config' });
    expect(await row('llamacpp')).toMatchObject({ scope: 'provider', max_requests: 100_000, source: 'config' });
    const changed = await put({ user_path: '/declared', limit_key: { period: 'minute' }, max_requests: 1 });
    expect(await errorOf(changed, 409)).toMatchObject({ code: 'rate_limit_managed' });
  });
});

describe('requests', () => {
  test.each([
    ['a background response that is not stored', { input: 'hi', background: true, store: false }, 400],
    ['an unknown earlier response', { input: 'hi', previous_response_id: 'resp_unknown' }, 404],
    ['an unknown item', { input: [{ type: 'item_reference', id: 'msg_unknown' }] }, 404],
  ])('do not count when they are refused for %s', async (name, body, status) => {
    const path = `/refused-${status}-${name.length}`;
    await put({ user_path: path, limit_key: { period: 'hour' }, max_requests: 2 });
    const usedOfProvider = async () => (await row('llamacpp')).requests_used;
    const before = await usedOfProvider();
    const headers = { 'x-gateway-user-path': path };
    for (let request = 0; request < 3; request++) {
      const refused = await gateway.post('/v1/responses', { model: MODEL, ...body }, { headers });
      expect(refused.status).toBe(status);
    }
    expect((await row(path, 'hour')).requests_used).toBe(0);
    expect(await usedOfProvider()).toBe(before);
    expect((await chat(path)).status).toBe(200);
  });

  test('are refused beyond the limit, and carry the remaining requests in headers', async () => {
    await put({ user_path: '/rpm', limit_key: { period: 'minute' }, max_requests: 2 });
    const first = await chat('/rpm/a');
    expect(first.headers.get('x-ratelimit-limit-requests')).toBe('2');
    expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('1');
    expect(first.headers.get('x-ratelimit-reset-requests')).toMatch(/^6[01]s$/);
    expect(first.headers.has('x-ratelimit-limit-tokens')).toBe(false);
    await first.text();
    await (await chat('/rpm')).text();
    const refused = await chat('/rpm/b');
    expect(await errorOf(refused, 429)).toMatchObject({ type: 'rate_limit_error', code: 'rate_limit_exceeded' });
    const wait = Number(refused.headers.get('retry-after'));
    expect(wait).toBeGreaterThan(0);
    expect(wait).toBeLessThanOrEqual(61);
    expect(await row('/rpm')).toMatchObject({ requests_used: 2, requests_remaining: 0, in_flight: 0 });
    expect((await chat('/other')).headers.has('x-ratelimit-limit-requests')).toBe(true);
  });

  test('of a stream carry the remaining requests in headers too', async () => {
    await put({ user_path: '/stream', limit_key: { period: 'minute' }, max_requests: 2 });
    const answer = await chat('/stream', { stream: true });
    expect(answer.headers.get('x-ratelimit-remaining-requests')).toBe('1');
    await answer.text();
  });

  test('of a passthrough count as well', async () => {
    await put({ user_path: '/pass', limit_key: { period: 'minute' }, max_requests: 1 });
    const headers = { 'x-gateway-user-path': '/pass' };
    const listed = await gateway.fetch('/p/llamacpp/v1/models', { headers });
    expect(listed.status).toBe(200);
    await listed.text();
    const refused = await gateway.fetch('/p/llamacpp/v1/models', { headers });
    expect(await errorOf(refused, 429)).toMatchObject({ code: 'rate_limit_exceeded' });
  });

  test('are let through again after a reset', async () => {
    await put({ user_path: '/reset', limit_key: { period: 'minute' }, max_requests: 1 });
    await (await chat('/reset')).text();
    expect((await chat('/reset')).status).toBe(429);
    const one = await gateway.post('/admin/rate-limits/reset-one', { user_path: '/reset', period: 'minute' });
    expect(one.status).toBe(200);
    expect(await row('/reset')).toMatchObject({ requests_used: 0 });
    await (await chat('/reset')).text();
    expect((await chat('/reset')).status).toBe(429);
    expect((await gateway.post('/admin/rate-limits/reset', { confirmation: 'no' })).status).toBe(400);
    expect(await json(await gateway.post('/admin/rate-limits/reset', { confirmation: 'reset' }))).toEqual({
      status: 'ok',
    });
    expect((await chat('/reset')).status).toBe(200);
  });
});

describe('tokens', () => {
  test('count when the answer has arrived, and later requests are refused', async () => {
    await put({ user_path: '/tpm', limit_key: { period: 'minute' }, max_tokens: 5 });
    const first = await chat('/tpm');
    expect(first.status).toBe(200);
    expect(first.headers.get('x-ratelimit-limit-tokens')).toBe('5');
    // Its own tokens are counted by then: the header shows what the next request will find.
    expect(first.headers.get('x-ratelimit-remaining-tokens')).toBe('0');
    const { usage } = await json(first);
    expect(await errorOf(await chat('/tpm'), 429)).toMatchObject({ code: 'rate_limit_exceeded' });
    expect(await row('/tpm')).toMatchObject({ tokens_used: usage.total_tokens, tokens_remaining: 0, requests_used: 1 });
  });
});

describe('concurrent requests', () => {
  test('are limited, and end with their client', async () => {
    await put({ user_path: '/busy', limit_key: { period: 'concurrent' }, max_requests: 1 });
    gateway.simulated.control.next({ holdAfterChunks: 2 }, { path: '/v1/chat/completions' });
    const stop = new AbortController();
    const open = await gateway.fetch('/v1/chat/completions', {
      method: 'POST',
      signal: stop.signal,
      headers: { 'x-gateway-user-path': '/busy' },
      body: JSON.stringify({ model: MODEL, messages: user('hello'), stream: true }),
    });
    await readUntil(open, 'data:');
    expect(await row('/busy', 'concurrent')).toMatchObject({ in_flight: 1, requests_used: 1, requests_remaining: 0 });
    const refused = await chat('/busy/too');
    expect(await errorOf(refused, 429)).toMatchObject({ code: 'rate_limit_exceeded' });
    expect(refused.headers.get('retry-after')).toBe('1');
    stop.abort();
    await expect
      .poll(async () => (await row('/busy', 'concurrent')).in_flight, { timeout: 10_000, interval: 20 })
      .toBe(0);
    expect((await chat('/busy')).status).toBe(200);
  });
});

describe('a key that is bound to a path', () => {
  let bound: ManagedKey;
  let plain: ManagedKey;
  const ask = (key: ManagedKey, more: object = {}) =>
    key.fetch('/v1/chat/completions', {
      method: 'POST',
      json: { model: MODEL, messages: user('hello'), ...more },
      headers: { 'x-gateway-user-path': '/upper/bound' },
    });
  const roomIn = ({ headers }: Response) => [...headers.keys()].filter((name) => name.startsWith('x-ratelimit-'));

  beforeAll(async () => {
    bound = await newKey(gateway, { user_path: '/upper/bound' });
    plain = await newKey(gateway, {});
    await put({ user_path: '/upper', limit_key: { period: 'hour' }, max_requests: 4, max_tokens: 1e6 });
  });

  test('gets no figure of limits above it in headers', async () => {
    for (const answer of [await ask(bound), await ask(plain), await ask(bound, { stream: true })]) {
      expect(answer.status).toBe(200);
      expect(roomIn(answer)).toEqual([]);
      await answer.text();
    }
  });

  test('gets those of its own limits, however low the ones above are', async () => {
    await put({ user_path: '/upper/bound', limit_key: { period: 'hour' }, max_requests: 50 });
    const answer = await ask(bound);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('x-ratelimit-limit-requests')).toBe('50');
    expect(answer.headers.get('x-ratelimit-remaining-requests')).toBe('49');
    expect(answer.headers.has('x-ratelimit-limit-tokens')).toBe(false);
    await answer.text();
  });

  test('is refused by a limit above it without a figure, and with the time to wait', async () => {
    for (const key of [bound, plain]) {
      const refused = await ask(key);
      const { message, code } = await errorOf(refused, 429);
      expect({ message, code }).toEqual({
        message: "The rate limit of the user path '/upper' is reached.",
        code: 'rate_limit_exceeded',
      });
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3000);
      expect(roomIn(refused)).toEqual([]);
    }
    const { message } = await errorOf(await chat('/upper'), 429);
    expect(message).toContain('4 requests and 1000000 tokens per hour');
  });

  test('is refused by a limit of the model without a figure', async () => {
    const rule = { scope: 'model', subject: 'llamacpp/simulated-large', limit_key: { period: 'hour' } };
    await put({ ...rule, max_requests: 1 });
    const other = await newKey(gateway, { user_path: '/other/bound' });
    const body = { model: rule.subject };
    const first = await ask(other, body);
    expect(first.status).toBe(200);
    expect(roomIn(first)).toEqual([]);
    await first.text();
    const { message } = await errorOf(await ask(other, body), 429);
    expect(message).toBe(`The rate limit of the model '${rule.subject}' is reached.`);
    await remove(rule);
  });
});

describe('a provider or a model', () => {
  test('at its limit refuses the request, without another target', async () => {
    await put({
      scope: 'model',
      subject: 'llamacpp/simulated-large',
      limit_key: { period: 'minute' },
      max_requests: 1,
    });
    const body = { model: 'llamacpp/simulated-large' };
    const first = await chat('/anywhere', body);
    expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('0');
    await first.text();
    const refused = await errorOf(await chat('/elsewhere', body), 429);
    expect(refused.message).toContain('llamacpp/simulated-large');
    expect((await chat('/anywhere')).status).toBe(200);
  });

  test('at its limit is skipped, with another target', async () => {
    const rule = { scope: 'model', subject: 'llamacpp/simulated-large' };
    await put({ ...rule, limit_key: { period: 'minute' }, max_requests: 1 });
    await gateway.post('/admin/rate-limits/reset-one', { ...rule, period: 'minute' });
    const targets = [{ model: rule.subject }, { model: MODEL }];
    const alias = { source: 'either', targets, strategy: 'failover' };
    expect((await gateway.post('/admin/virtual-models', alias, { method: 'PUT' })).status).toBe(200);
    const models: string[] = [];
    for (let request = 0; request < 3; request++) {
      const answer = await chat('/either', { model: 'either' });
      expect(answer.status).toBe(200);
      await answer.text();
      models.push(JSON.parse(gateway.lastProviderRequest().body).model);
    }
    expect(models).toEqual(['simulated-large', 'simulated-small', 'simulated-small']);
  });
});

describe('an administrator of a subtree', () => {
  let key: ManagedKey;
  const as = (path: string, method: string, json?: unknown) => key.fetch(path, { method, json });

  beforeAll(async () => {
    key = await newKey(gateway, { user_path: '/scope', dashboard_access: true });
  });

  test('sees and creates those of its paths alone', async () => {
    const rule = { limit_key: { period: 'minute' }, max_requests: 9 };
    const { rate_limits } = await json(await as('/admin/rate-limits', 'PUT', rule));
    expect(rate_limits.map(({ subject }: { subject: string }) => subject)).toEqual(['/scope']);
    for (const other of [
      { user_path: '/scopes' },
      { scope: 'provider', subject: 'llamacpp' },
      { scope: 'model', subject: 'm' },
    ]) {
      const refused = await as('/admin/rate-limits', 'PUT', { ...other, ...rule });
      expect(await errorOf(refused, 403)).toMatchObject({ code: 'user_path_out_of_scope' });
    }
  });
});
