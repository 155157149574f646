/** Budgets through HTTP: their administration and their enforcement. */
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { errorOf, eventsUntil, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({ env: { SET_BUDGET_DECLARED: 'daily=10,weekly=50' } });
const PRICED = 'llamacpp/simulated-small';

const put = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  gateway.post(path, body, { method: 'PUT', headers });
const remove = (path: string, body?: unknown) =>
  gateway.fetch(path, { method: 'DELETE', ...(body === undefined ? {} : { body: JSON.stringify(body) }) });

async function rows(): Promise<Record<string, unknown>[]> {
  return (await json(await gateway.fetch('/admin/budgets'))).budgets;
}

async function row(userPath: string, label = 'daily') {
  return (await rows()).find(({ user_path, period_label }) => user_path === userPath && period_label === label);
}

function chat(userPath: string, model = PRICED): Promise<Response> {
  return gateway.post(
    '/v1/chat/completions',
    { model, messages: user('hello') },
    { headers: { 'x-gateway-user-path': userPath } },
  );
}

async function served(userPath: string): Promise<string> {
  const answer = await chat(userPath);
  expect(await answer.json()).toMatchObject({ object: 'chat.completion' });
  return exchangeOf(answer);
}

/** Resolves when the cost of an exchange has been charged. */
async function spentOf(exchange: string): Promise<void> {
  await eventsUntil(gateway, `stream=exchange-${exchange}`, ({ type }) => type === 'usage.recorded');
}

beforeAll(async () => {
  const priced = await put('/admin/model-pricing-overrides', { selector: PRICED, pricing: { per_request: 1 } });
  expect(priced.status).toBe(200);
});

describe('a budget', () => {
  test('is created by its path, and returned with all its members', async () => {
    const answer = await put('/admin/budgets/%2Fforms%2Fa/daily', { amount: 12.5 });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"0"');
    const { budgets, server_time } = await json(answer);
    expect(Date.parse(server_time)).toBeCloseTo(Date.now(), -5);
    const made = budgets.find((one: { user_path: string }) => one.user_path === '/forms/a');
    expect(made).toMatchObject({
      scope: 'user_path',
      subject: '/forms/a',
      user_path: '/forms/a',
      per_child: false,
      period_seconds: 86_400,
      period_label: 'daily',
      amount: 12.5,
      source: 'manual',
      revision: '0',
      spent: 0,
      reserved: 0,
      has_usage: false,
      remaining: 12.5,
      usage_ratio: 0,
    });
    expect(made).not.toHaveProperty('last_reset_at');
    expect(Date.parse(made.period_end) - Date.parse(made.period_start)).toBe(86_400_000);
    expect(made.period_ratio).toBeGreaterThanOrEqual(0);
    expect(made.period_ratio).toBeLessThanOrEqual(1);
    expect(Date.parse(made.created_at)).toBe(Date.parse(made.updated_at));
  });

  test.each([
    ['a name', { user_path: 'forms/b', budget_key: { period: 'Weeks' } }, '/forms/b', 'weekly'],
    ['seconds', { user_path: '/forms/b', budget_key: { period_seconds: 5400 } }, '/forms/b', '5400s'],
    ['seconds in text', { subject: '/forms/b/', budget_key: { period: '3600' } }, '/forms/b', 'hourly'],
    [
      'a scope',
      { scope: 'user_path', subject: '/forms/c', budget_key: { period: 'month' }, per_child: false },
      '/forms/c',
      'monthly',
    ],
  ])('is created by its body, with %s', async (_name, body, path, label) => {
    expect((await put('/admin/budgets', { ...body, amount: 1 })).status).toBe(200);
    expect(await row(path, label)).toMatchObject({ amount: 1 });
    expect((await remove('/admin/budgets', body)).status).toBe(200);
    expect(await row(path, label)).toBeUndefined();
  });

  test('of a label has the label as its subject, unchanged', async () => {
    const budget = { scope: 'label', subject: 'Batch Jobs', budget_key: { period: 'daily' } };
    const { budgets } = await json(await put('/admin/budgets', { ...budget, amount: 3 }));
    expect(budgets.at(-1)).toMatchObject({ scope: 'label', subject: 'Batch Jobs', amount: 3 });
    expect(budgets.at(-1)).not.toHaveProperty('user_path');
    expect((await remove('/admin/budgets', budget)).status).toBe(200);
  });

  test('is listed by its path, the longest period first', async () => {
    await put('/admin/budgets/%2Fsorted%2Fb/daily', { amount: 1 });
    await put('/admin/budgets/%2Fsorted%2Fa/hourly', { amount: 1 });
    await put('/admin/budgets/%2Fsorted%2Fa/monthly', { amount: 1 });
    const sorted = (await rows()).filter(({ subject }) => String(subject).startsWith('/sorted'));
    expect(sorted.map(({ subject, period_label }) => `${subject} ${period_label}`)).toEqual([
      '/sorted/a monthly',
      '/sorted/a hourly',
      '/sorted/b daily',
    ]);
  });

  test('records no event when nothing changes, and keeps its creation time when it changes', async () => {
    await put('/admin/budgets/%2Fsame/daily', { amount: 1 });
    const first = await row('/same');
    const again = await put('/admin/budgets/%2Fsame/daily', { amount: 1 });
    expect(again.headers.get('etag')).toBe('"0"');
    const changed = await put('/admin/budgets/%2Fsame/daily', { amount: 2 });
    expect(changed.headers.get('etag')).toBe('"1"');
    expect(await row('/same')).toMatchObject({ amount: 2, created_at: first?.created_at, revision: '1' });
  });

  test('is changed by one of two concurrent requests with the same If-Match', async () => {
    await put('/admin/budgets/%2Frace/daily', { amount: 1 });
    const both = await Promise.all(
      [2, 3].map((amount) => put('/admin/budgets/%2Frace/daily', { amount }, { 'if-match': '"0"' })),
    );
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const lost = both.find(({ status }) => status === 409);
    expect(lost && (await errorOf(lost, 409))).toMatchObject({ code: 'revision_mismatch' });
    const neither = await Promise.all([4, 5].map((amount) => put('/admin/budgets/%2Frace/daily', { amount })));
    expect(neither.map(({ status }) => status)).toEqual([200, 200]);
  });

  test.each([
    ['no amount', {}, 'amount'],
    ['an amount of zero', { amount: 0 }, 'amount'],
    ['a negative amount', { amount: -1 }, 'amount'],
    ['an amount that is not a number', { amount: '10' }, 'amount'],
    ['an infinite amount', '{"amount":1e999}', 'amount'],
    ['an amount over the limit', { amount: 1e13 }, 'amount'],
    ['an amount too small to be stored', { amount: 1e-10 }, 'amount'],
    ['an unknown field', { amount: 1, currency: 'EUR' }, 'currency'],
  ])('is refused with %s', async (_name, body, param) => {
    expect(await errorOf(await put('/admin/budgets/%2Fbad/daily', body), 400)).toMatchObject({ param });
  });

  test.each([
    ['/admin/budgets/%2Fbad/yearly', 'period'],
    ['/admin/budgets/%2Fbad/0', 'period'],
    ['/admin/budgets/%2Fbad/31622401', 'period'],
    ['/admin/budgets/%2Fbad%2F..%2Fx/daily', 'user_path'],
    ['/admin/budgets/%2Fbad%2F%2Fx/daily', 'user_path'],
    ['/admin/budgets/%2Fbad%00/daily', 'user_path'],
  ])('is refused at %s', async (path, param) => {
    expect(await errorOf(await put(path, { amount: 1 }), 400)).toMatchObject({ param });
  });

  test.each([
    ['no period', { user_path: '/bad' }, 'budget_key.period'],
    ['an empty period', { user_path: '/bad', budget_key: {} }, 'budget_key.period'],
    ['two periods', { user_path: '/bad', budget_key: { period: 'daily', period_seconds: 60 } }, 'budget_key.period'],
    ['no path', { budget_key: { period: 'daily' } }, 'user_path'],
    ['two paths', { user_path: '/a', subject: '/b', budget_key: { period: 'daily' } }, 'subject'],
    ['an unknown scope', { scope: 'model', subject: 'x', budget_key: { period: 'daily' } }, 'scope'],
    ['a path for a label', { scope: 'label', user_path: '/a', budget_key: { period: 'daily' } }, 'user_path'],
    ['a label without a name', { scope: 'label', subject: ' ', budget_key: { period: 'daily' } }, 'subject'],
    ['a budget for each child', { user_path: '/a', per_child: true, budget_key: { period: 'daily' } }, 'per_child'],
  ])('is refused in the form of the body with %s', async (_name, body, param) => {
    expect(await errorOf(await put('/admin/budgets', { ...body, amount: 1 }), 400)).toMatchObject({ param });
  });

  test('records no event when it was refused', async () => {
    await put('/admin/budgets/%2Fend-of-bad/daily', { amount: 1 });
    const events = await eventsUntil(gateway, 'types=budget.', ({ stream }) => stream === 'budget-/end-of-bad');
    expect(events.filter(({ stream }) => stream.includes('bad') && stream !== 'budget-/end-of-bad')).toEqual([]);
  });

  test('that does not exist can be neither removed nor reset', async () => {
    expect(await errorOf(await remove('/admin/budgets/%2Fnowhere/daily'), 404)).toMatchObject({
      code: 'budget_not_found',
    });
    const reset = await gateway.post('/admin/budgets/reset-one', { user_path: '/nowhere', period: 'daily' });
    expect(await errorOf(reset, 404)).toMatchObject({ code: 'budget_not_found' });
  });

  test('that is declared has the source config, and cannot be changed here', async () => {
    expect(await row('/declared', 'weekly')).toMatchObject({ amount: 50, source: 'config' });
    expect(await errorOf(await put('/admin/budgets/%2Fdeclared/daily', { amount: 1 }), 409)).toMatchObject({
      code: 'budget_managed',
    });
    expect(await errorOf(await remove('/admin/budgets/%2Fdeclared/daily'), 409)).toMatchObject({
      code: 'budget_managed',
    });
    expect(await row('/declared')).toMatchObject({ amount: 10 });
  });
});

describe('the reset settings', () => {
  const settings = () => gateway.fetch('/admin/budgets/settings');

  test('are midnight, Monday and the first by default', async () => {
    const untouched = await settings();
    const today = Math.floor(Date.now() / 86_400_000) * 86_400_000;
    const date = new Date(today);
    const monday = today - ((date.getUTCDay() + 6) % 7) * 86_400_000;
    const month = (index: number) => Date.UTC(date.getUTCFullYear(), index);
    const period = (start: number, end: number) => ({
      start: new Date(start).toISOString(),
      end: new Date(end).toISOString(),
    });
    expect(untouched.headers.get('etag')).toBe('"none"');
    expect((await put('/admin/budgets/settings', {})).headers.get('etag')).toBe('"none"');
    expect(await json(untouched)).toEqual({
      daily_reset_hour: 0,
      daily_reset_minute: 0,
      weekly_reset_weekday: 1,
      weekly_reset_hour: 0,
      weekly_reset_minute: 0,
      monthly_reset_day: 1,
      monthly_reset_hour: 0,
      monthly_reset_minute: 0,
      updated_at: null,
      revision: 'none',
      current_periods: {
        daily: period(today, today + 86_400_000),
        weekly: period(monday, monday + 7 * 86_400_000),
        monthly: period(month(date.getUTCMonth()), month(date.getUTCMonth() + 1)),
      },
    });
    const changed = await put('/admin/budgets/settings', { daily_reset_hour: 6, monthly_reset_day: 31 });
    expect(await json(changed)).toMatchObject({ daily_reset_hour: 6, monthly_reset_day: 31, weekly_reset_weekday: 1 });
    expect((await settings()).headers.get('etag')).toBe(changed.headers.get('etag'));
    await put('/admin/budgets/%2Fsettings/daily', { amount: 1 });
    expect(String((await row('/settings'))?.period_start)).toContain('T06:00:00');
    expect((await put('/admin/budgets/settings', { daily_reset_hour: 0, monthly_reset_day: 1 })).status).toBe(200);
  });

  test.each([
    ['daily_reset_hour', 24],
    ['daily_reset_minute', 60],
    ['weekly_reset_weekday', 7],
    ['monthly_reset_day', 0],
    ['monthly_reset_day', 1.5],
    ['weekly_reset_hour', '6'],
    ['yearly_reset_day', 1],
  ])('do not take %s as %j', async (name, value) => {
    expect(await errorOf(await put('/admin/budgets/settings', { [name]: value }), 400)).toMatchObject({ param: name });
  });
});

describe('spending', () => {
  test('counts at the path and above it, and refuses later requests', async () => {
    await put('/admin/budgets/%2Fspend/daily', { amount: 2 });
    await put('/admin/budgets/%2Fspend%2Fteam/hourly', { amount: 100 });
    await served('/spend/team');
    await served('/spend');
    const refused = await chat('/spend/team/alpha');
    const error = await errorOf(refused, 429);
    expect(error).toMatchObject({ type: 'rate_limit_error', code: 'budget_exceeded' });
    expect(refused.headers.get('x-should-retry')).toBe('false');
    const { period_end, ...spent } = (await row('/spend')) ?? {};
    expect(spent).toMatchObject({ spent: 2, remaining: 0, has_usage: true, usage_ratio: 1 });
    const wait = Number(refused.headers.get('retry-after'));
    expect(Math.abs(wait - (Date.parse(String(period_end)) - Date.now()) / 1000)).toBeLessThan(30);
    expect(await row('/spend/team', 'hourly')).toMatchObject({ spent: 1 });
    expect((await chat('/spending')).status).toBe(200);
  });

  test('beyond the amount is a ratio above 1, and the budget says that it refuses', async () => {
    await put('/admin/budgets/%2Fbeyond/daily', { amount: 4 });
    await served('/beyond');
    await served('/beyond');
    expect(await row('/beyond')).toMatchObject({ usage_ratio: 0.5, refusing: false });
    await put('/admin/budgets/%2Fbeyond/daily', { amount: 0.5 });
    expect(await row('/beyond')).toMatchObject({ usage_ratio: 4, refusing: true });
    expect((await chat('/beyond')).status).toBe(429);
  });

  test('beyond the budget is refused on every endpoint, and recorded as refused', async () => {
    await put('/admin/budgets/%2Fclosed/daily', { amount: 1 });
    await served('/closed');
    const headers = { 'x-gateway-user-path': '/closed' };
    const bodies: [string, object][] = [
      ['/v1/responses', { model: PRICED, input: 'hello' }],
      ['/v1/embeddings', { model: 'llamacpp/simulated-embed', input: 'hello' }],
      ['/v1/messages', { model: PRICED, max_tokens: 10, messages: user('hello') }],
      ['/p/llamacpp/v1/chat/completions', { model: 'simulated-small', messages: user('hello') }],
    ];
    for (const [path, body] of bodies) {
      const answer = await gateway.post(path, body, { headers });
      expect([path, answer.status]).toEqual([path, 429]);
      await answer.text();
    }
    expect((await gateway.fetch('/v1/models', { headers })).status).toBe(200);
    expect((await gateway.fetch('/v1/usage', { headers })).status).toBe(200);
  });

  test('is cleared by a reset of one budget, and by a reset of all', async () => {
    await put('/admin/budgets/%2Freset/daily', { amount: 1 });
    await served('/reset');
    expect((await chat('/reset')).status).toBe(429);
    const one = await gateway.post('/admin/budgets/reset-one', { user_path: '/reset', period: 'daily' });
    expect(one.status).toBe(200);
    const row1 = await row('/reset');
    expect(row1).toMatchObject({ spent: 0, has_usage: false });
    expect(row1?.last_reset_at).toBe(row1?.period_start);
    await served('/reset');
    expect((await chat('/reset')).status).toBe(429);
    const unsure = await gateway.post('/admin/budgets/reset', { confirmation: 'yes' });
    expect(await errorOf(unsure, 400)).toMatchObject({ param: 'confirmation' });
    const all = await gateway.post('/admin/budgets/reset', { confirm: 'RESET' });
    expect(await json(all)).toEqual({ status: 'ok' });
    expect((await rows()).every(({ spent }) => spent === 0)).toBe(true);
    await served('/reset');
  });

  test('of sequential requests is exact', async () => {
    await put('/admin/budgets/%2Fsequence/daily', { amount: 5.5 });
    const statuses: number[] = [];
    for (let request = 0; request < 8; request++) statuses.push((await chat('/sequence')).status);
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
    expect(await row('/sequence')).toMatchObject({ spent: 5, remaining: 0.5 });
  });

  test('is included in a budget that is created later', async () => {
    await spentOf(await served('/later/x'));
    await put('/admin/budgets/%2Flater/daily', { amount: 1 });
    expect(await row('/later')).toMatchObject({ spent: 1, remaining: 0 });
    expect((await chat('/later')).status).toBe(429);
  });

  test('of a request under way is reserved, then spent', async () => {
    await put('/admin/budgets/%2Funderway/daily', { amount: 10 });
    await served('/underway/x');
    expect(await row('/underway')).toMatchObject({ spent: 1, reserved: 0 });
    gateway.simulated.control.next({ holdAfterChunks: 2 });
    const answer = await gateway.post(
      '/v1/chat/completions',
      { model: PRICED, messages: user('hello'), stream: true },
      { headers: { 'x-gateway-user-path': '/underway/x' } },
    );
    expect(await row('/underway')).toMatchObject({ spent: 1, reserved: 1 });
    expect(await json(await gateway.fetch('/admin/budgets/%2Funderway/daily'))).toMatchObject({ reserved: 1 });
    gateway.simulated.control.release();
    await answer.text();
    await expect.poll(() => row('/underway')).toMatchObject({ spent: 2, reserved: 0 });
  });

  test('of a stream counts like that of a whole answer', async () => {
    await put('/admin/budgets/%2Fstreamed/daily', { amount: 1 });
    const headers = { 'x-gateway-user-path': '/streamed' };
    const body = { model: PRICED, messages: user('hello'), stream: true };
    const answer = await gateway.post('/v1/chat/completions', body, { headers });
    expect(await answer.text()).toContain('[DONE]');
    expect((await gateway.post('/v1/chat/completions', body, { headers })).status).toBe(429);
  });
});

describe('two hundred requests at once, against a budget for ten', () => {
  async function burst(userPath: string, body: object) {
    const answers = await Promise.all(
      Array.from({ length: 200 }, () =>
        gateway.post('/v1/chat/completions', body, { headers: { 'x-gateway-user-path': userPath } }),
      ),
    );
    await Promise.all(answers.map((answer) => answer.text()));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.every(({ headers }) => headers.get('x-should-retry') === 'false')).toBe(true);
    expect(refused.every(({ headers }) => Number(headers.get('retry-after')) > 0)).toBe(true);
    const served = answers.filter(({ status }) => status === 200).length;
    expect(served + refused.length).toBe(200);
    return served;
  }

  test('serve ten, when a request has a fixed price', async () => {
    await put('/admin/budgets/%2Fburst/daily', { amount: 10.5 });
    expect(await burst('/burst/a', { model: PRICED, messages: user('hello') })).toBe(10);
    expect(await row('/burst')).toMatchObject({ spent: 10 });
  });

  test('serve ten through passthrough too, without an earlier request of the kind', async () => {
    const body = { model: 'simulated-small', messages: user('hello') };
    await put('/admin/budgets/%2Fpassed/daily', { amount: 10.5 });
    const answers = await Promise.all(
      Array.from({ length: 100 }, () =>
        gateway.post('/p/llamacpp/v1/chat/completions', body, { headers: { 'x-gateway-user-path': '/passed' } }),
      ),
    );
    await Promise.all(answers.map((answer) => answer.text()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(90);
    await expect.poll(async () => (await row('/passed'))?.spent).toBe(10);
  });

  test('serve at most ten, when only tokens have a price', async () => {
    const model = 'llamacpp/simulated-large';
    const pricing = { input_per_mtok: 1000, output_per_mtok: 1000 };
    expect((await put('/admin/model-pricing-overrides', { selector: model, pricing })).status).toBe(200);
    const body = { model, messages: user('How much is it?'), max_tokens: 20, seed: 1 };
    await put('/admin/budgets/%2Fmeasure/daily', { amount: 1000 });
    const one = await gateway.post('/v1/chat/completions', body, { headers: { 'x-gateway-user-path': '/measure' } });
    await spentOf(exchangeOf(one));
    const cost = Number((await row('/measure'))?.spent);
    expect(cost).toBeGreaterThan(0);
    await put('/admin/budgets/%2Ftokens/daily', { amount: cost * 10.5 });
    const served = await burst('/tokens', body);
    expect(served).toBeGreaterThan(0);
    expect(served).toBeLessThanOrEqual(10);
    expect(Number((await row('/tokens'))?.spent)).toBeLessThanOrEqual(cost * 10.5);
  });

  test('count the earlier turns that a response includes', async () => {
    const model = 'llamacpp/simulated-large';
    const pricing = { input_per_mtok: 1000, output_per_mtok: 1000 };
    expect((await put('/admin/model-pricing-overrides', { selector: model, pricing })).status).toBe(200);
    const respond = (json: object) =>
      gateway.post(
        '/v1/responses',
        { model, max_output_tokens: 16, ...json },
        { headers: { 'x-gateway-user-path': '/turns' } },
      );
    await put('/admin/budgets/%2Fturns/daily', { amount: 1_000_000 });
    const first = await respond({ input: 'hello '.repeat(4000) });
    await spentOf(exchangeOf(first));
    const { id } = await json(first);
    const cost = Number((await row('/turns'))?.spent);
    expect(cost).toBeGreaterThan(1);
    const amount = cost * 7.5;
    await put('/admin/budgets/%2Fturns/daily', { amount });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => respond({ input: 'hi', previous_response_id: id })),
    );
    await Promise.all(answers.map((answer) => answer.text()));
    const served = answers.filter(({ status }) => status === 200).map(exchangeOf);
    for (const exchange of served) await spentOf(exchange);
    expect(served.length).toBeGreaterThan(0);
    expect(answers.filter(({ status }) => status === 429).length).toBe(20 - served.length);
    expect(served.length).toBeLessThan(8);
    expect(Number((await row('/turns'))?.spent)).toBeLessThanOrEqual(amount);
  });
});

describe('an administrator of a subtree', () => {
  let key: ManagedKey;
  const as = (path: string, method: string, json?: unknown) => key.fetch(path, { method, json });

  beforeAll(async () => {
    key = await newKey(gateway, { user_path: '/scope', dashboard_access: true });
  });
  beforeEach(() => put('/admin/budgets/%2Fscope%2Fx/daily', { amount: 1 }));

  test('sees the budgets of its paths alone', async () => {
    const { budgets } = await json(await as('/admin/budgets', 'GET'));
    expect(budgets.map(({ subject }: { subject: string }) => subject)).toEqual(['/scope/x']);
  });

  test('creates them for its root by default, and in its paths alone', async () => {
    const { budgets } = await json(await as('/admin/budgets', 'PUT', { budget_key: { period: 'daily' }, amount: 4 }));
    expect(budgets.map(({ subject }: { subject: string }) => subject)).toEqual(['/scope', '/scope/x']);
    for (const [method, path, body] of [
      ['PUT', '/admin/budgets/%2Fscope-b/daily', { amount: 1 }],
      ['PUT', '/admin/budgets', { user_path: '/', budget_key: { period: 'daily' }, amount: 1 }],
      ['PUT', '/admin/budgets', { scope: 'label', subject: 'x', budget_key: { period: 'daily' }, amount: 1 }],
      ['DELETE', '/admin/budgets/%2Fdeclared/daily', undefined],
      ['POST', '/admin/budgets/reset-one', { user_path: '/declared', period: 'daily' }],
    ] as const) {
      const code = (await errorOf(await as(path, method, body), 403)).code;
      expect([method, path, code]).toEqual([method, path, 'user_path_out_of_scope']);
    }
    expect((await as('/admin/budgets', 'DELETE', { budget_key: { period: 'daily' } })).status).toBe(200);
  });

  test('reads the settings and does not change them', async () => {
    expect((await as('/admin/budgets/settings', 'GET')).status).toBe(200);
    expect((await as('/admin/budgets/settings', 'PUT', { daily_reset_hour: 1 })).status).toBe(403);
  });
});
