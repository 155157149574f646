/** `GET /v1/usage`: the remaining budgets and limits of the caller. */
import { beforeAll, describe, expect, test } from 'vitest';
import { errorOf, eventsUntil, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();
const MODEL = 'llamacpp/simulated-small';
let key = '';

const put = (path: string, body: unknown) => gateway.post(path, body, { method: 'PUT' });
const send = (query = '', headers: Record<string, string> = { authorization: `Bearer ${key}` }) =>
  gateway.fetch(`/v1/usage${query}`, { headers });

beforeAll(async () => {
  const made = await gateway.post('/admin/auth-keys', { name: 'alpha', user_path: '/team/alpha', labels: ['batch'] });
  key = (await json(made)).value;
  await put('/admin/model-pricing-overrides', { selector: MODEL, pricing: { per_request: 1.5 } });
  await put('/admin/budgets/%2Fteam/daily', { amount: 1 });
  await put('/admin/budgets/%2Fteam%2Falpha/hourly', { amount: 10 });
  await put('/admin/budgets/%2Fteam%2Fbeta/hourly', { amount: 10 });
  await put('/admin/budgets', { scope: 'label', subject: 'batch', budget_key: { period: 'monthly' }, amount: 6 });
  await put('/admin/rate-limits', {
    user_path: '/team',
    limit_key: { period: 'hour' },
    max_requests: 2,
    max_tokens: 9,
  });
  await put('/admin/rate-limits', { user_path: '/team/alpha', limit_key: { period: 'minute' }, max_requests: 50 });
  await put('/admin/rate-limits', { user_path: '/', limit_key: { period: 'concurrent' }, max_requests: 4 });
  await put('/admin/rate-limits', {
    scope: 'provider',
    subject: 'llamacpp',
    limit_key: { period: 'hour' },
    max_requests: 9,
  });
});

describe('the usage of a key', () => {
  test('has every budget and limit of its path, of paths above and of its labels, before any use', async () => {
    const answer = await json(await send());
    expect(answer).toMatchObject({ object: 'usage', user_path: '/team/alpha' });
    expect(Date.parse(answer.server_time)).toBeCloseTo(Date.now(), -5);
    expect(answer.budgets).toMatchObject([
      {
        scope: 'user_path',
        subject: '/team',
        user_path: '/team',
        period_label: 'daily',
        exceeded: false,
      },
      { subject: '/team/alpha', period_label: 'hourly', amount: 10, spent: 0, remaining: 10, usage_ratio: 0 },
      { scope: 'label', subject: 'batch', period_label: 'monthly' },
    ]);
    expect(answer.rate_limits).toMatchObject([
      { user_path: '/', period_label: 'concurrent', exhausted: false },
      { user_path: '/team', period_label: 'hour', exhausted: false },
      { user_path: '/team/alpha', period_label: 'minute', max_requests: 50, requests_used: 0, requests_remaining: 50 },
    ]);
    expect(answer.rate_limits[0]).not.toHaveProperty('window_start');
  });

  test('shows the spending, also when a budget was exceeded', async () => {
    const headers = { authorization: `Bearer ${key}` };
    const first = await gateway.post('/v1/chat/completions', { model: MODEL, messages: user('hello') }, { headers });
    // A fixed price of more than is left.
    expect(await errorOf(first, 429)).toMatchObject({ code: 'budget_exceeded' });
    await put('/admin/budgets/%2Fteam/daily', { amount: 1.5 });
    const second = await gateway.post('/v1/chat/completions', { model: MODEL, messages: user('hello') }, { headers });
    expect(second.status).toBe(200);
    await eventsUntil(gateway, `stream=exchange-${exchangeOf(second)}`, ({ type }) => type === 'usage.recorded');
    await put('/admin/budgets/%2Fteam/daily', { amount: 1 });
    const { budgets, rate_limits } = await json(await send());
    expect(budgets[1]).toMatchObject({ spent: 1.5, remaining: 8.5, usage_ratio: 0.15, exceeded: false });
    expect(rate_limits[2]).toMatchObject({ requests_used: 1, requests_usage_ratio: 0.02, exhausted: false });
    const all = await json(await send('', { 'x-gateway-user-path': '/team/alpha' }));
    expect(all.budgets[0]).toMatchObject({ spent: 1.5, remaining: -0.5, usage_ratio: 1.5, exceeded: true });
    expect(all.rate_limits[1]).toMatchObject({ requests_used: 1, requests_usage_ratio: 0.5, exhausted: true });
    expect(all.rate_limits[1].tokens_usage_ratio).toBeGreaterThan(1);
  });

  test('states whether and until when limits above its path bind, without amounts', async () => {
    const { budgets, rate_limits } = await json(await send());
    const hidden = { amount: null, spent: null, remaining: null, usage_ratio: null };
    expect(budgets[0]).toEqual({
      ...hidden,
      scope: 'user_path',
      subject: '/team',
      user_path: '/team',
      per_child: false,
      period_seconds: 86_400,
      period_label: 'daily',
      period_start: expect.any(String),
      period_end: expect.any(String),
      resets_in_seconds: expect.any(Number),
      exceeded: true,
    });
    expect(Date.parse(budgets[0].period_end) - Date.now()).toBeCloseTo(budgets[0].resets_in_seconds * 1000, -4);
    expect(budgets[0].resets_in_seconds).toBeGreaterThan(0);
    // A label is shared by every key that has it.
    expect(budgets[2]).toMatchObject({ ...hidden, scope: 'label', subject: 'batch', exceeded: false });
    const noRequests = {
      max_requests: null,
      requests_used: null,
      requests_remaining: null,
      requests_usage_ratio: null,
    };
    const noTokens = { max_tokens: null, tokens_used: null, tokens_remaining: null, tokens_usage_ratio: null };
    expect(rate_limits[0]).toEqual({
      ...noRequests,
      user_path: '/',
      subject: '/',
      period_seconds: 0,
      period_label: 'concurrent',
      tokens_used: null,
      in_flight: null,
      exhausted: false,
    });
    expect(rate_limits[1]).toMatchObject({ ...noRequests, ...noTokens, in_flight: null, exhausted: true });
    expect(rate_limits[1].resets_in_seconds).toBeGreaterThan(3500);
  });

  test('a refusal names amounts only where every reader of the request may see them', async () => {
    const post = (headers: Record<string, string>) =>
      gateway.post('/v1/chat/completions', { model: MODEL, messages: user('hello') }, { headers });
    // The second is recorded at the path of the key, whose administrators read it.
    for (const [name, value] of [
      ['authorization', `Bearer ${key}`],
      ['x-gateway-user-path', '/team/alpha'],
    ] as const) {
      const refused = await errorOf(await post({ [name]: value }), 429);
      expect(refused.message).toContain("daily budget of '/team'");
      expect(refused.message).not.toMatch(/\d/);
    }
    const atTheBudget = await errorOf(await post({ 'x-gateway-user-path': '/team' }), 429);
    expect(atTheBudget.message).toMatch(/'\/team', 1 USD.*1\.5 USD are spent/);
  });

  test('counts against no limit', async () => {
    const before = await json(await send());
    for (let request = 0; request < 5; request++) expect((await send()).status).toBe(200);
    expect((await json(await send())).rate_limits[2].requests_used).toBe(before.rate_limits[2].requests_used);
  });
});

describe('GET /v1/usage', () => {
  test('with the master key returns the limits of the path in the header, or of the root', async () => {
    expect(await json(await send('', {}))).toMatchObject({ user_path: '/', budgets: [] });
    const named = await json(await send('', { 'x-gateway-user-path': '/team/beta/x' }));
    expect(named.budgets.map(({ subject }: { subject: string }) => subject)).toEqual(['/team', '/team/beta']);
  });

  test('with a plain key that is bound to no path returns no amount of any limit, whatever the header names', async () => {
    for (const body of [{}, { user_path: '/' }]) {
      const plain = (await json(await gateway.post('/admin/auth-keys', { name: 'plain', ...body }))).value;
      for (const path of ['/team/alpha', '/']) {
        const headers = { authorization: `Bearer ${plain}`, 'x-gateway-user-path': path };
        const { budgets, rate_limits } = await json(await send('', headers));
        for (const budget of budgets) expect(budget).toMatchObject({ amount: null, spent: null, usage_ratio: null });
        for (const limit of rate_limits) expect(limit).toMatchObject({ requests_used: null, in_flight: null });
        expect(rate_limits.length).toBeGreaterThan(0);
      }
    }
  });

  test('with a global administrator returns all amounts', async () => {
    const made = await gateway.post('/admin/auth-keys', { name: 'global', dashboard_access: true });
    const headers = { authorization: `Bearer ${(await json(made)).value}`, 'x-gateway-user-path': '/team/alpha' };
    const { budgets } = await json(await send('', headers));
    expect(budgets.map(({ amount }: { amount: number }) => amount)).toEqual([1, 10]);
  });

  test('needs a key', async () => {
    await errorOf(await fetch(`${gateway.url}/v1/usage`), 401);
  });
});

describe('the range of days', () => {
  const range = async (query: string) => {
    const { start_date, end_date, ...figures } = (await json(await send(query))).usage;
    return { start_date, end_date, figures };
  };
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);

  test('is returned, with figures that are still zero', async () => {
    const { start_date, end_date, figures } = await range('?start_date=2026-03-01&end_date=2026-03-31');
    expect([start_date, end_date]).toEqual(['2026-03-01', '2026-03-31']);
    expect(figures).toEqual({
      total_requests: 0,
      total_input_tokens: 0,
      total_output_tokens: 0,
      total_tokens: 0,
      uncached_input_tokens: 0,
      cached_input_tokens: 0,
      cache_write_input_tokens: 0,
      total_input_cost: null,
      total_output_cost: null,
      total_cost: null,
      rewrite_tokens_saved: 0,
      rewrite_cost_saved: null,
    });
    expect(await range('?end_date=2026-03-31')).toMatchObject({ start_date: '2026-03-02' });
    expect(await range('?days=1')).toSatisfy(
      (one: { start_date: string; end_date: string }) => one.start_date === one.end_date,
    );
    const usual = await range('');
    expect([day(29), day(30)]).toContain(usual.start_date);
  });

  test.each([
    ['days=0', 'days'],
    ['days=366', 'days'],
    ['days=many', 'days'],
    ['days=1e2', 'days'],
    ['days=%2030', 'days'],
    ['days=0x1e', 'days'],
    ['start_date=1900-01-01', 'start_date'],
    ['start_date=yesterday', 'start_date'],
    ['end_date=2026-02-30', 'end_date'],
    ['start_date=2026-03-02&end_date=2026-03-01', 'start_date'],
  ])('is refused when it is invalid: %s', async (query, param) => {
    expect(await errorOf(await send(`?${query}`), 400)).toMatchObject({ param });
  });
});
