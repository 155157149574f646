import { describe, expect, it, test } from 'vitest';
import { createRefresh } from '../../src/http/admin/runtime.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

describe('the runtime configuration', () => {
  const gateway = withGateway();

  it('is flat, and every value is text', async () => {
    const flags = await json(await gateway.fetch('/admin/runtime/config'));
    expect(flags).toMatchObject({
      LOGGING_ENABLED: 'on',
      ANALYTICS_ENABLED: 'on',
      LOGGING_RETENTION_DAYS: '30',
      USAGE_ENABLED: 'on',
      PLUGINS_ENABLED: 'off',
      GUARDRAILS_ENABLED: 'off',
      BUDGETS_ENABLED: 'on',
      RATE_LIMITS_ENABLED: 'on',
      FAILOVER_ENABLED: 'on',
      VIRTUAL_MODEL_STRATEGIES: expect.stringContaining('round_robin,'),
      DASHBOARD_LIVE_LOGS_ENABLED: 'on',
      USER_PATH_HEADER: 'X-Gateway-User-Path',
    });
    for (const value of Object.values(flags)) expect(value).toEqual(expect.stringMatching(/./));
  });

  it('is also served under its older paths, marked as deprecated', async () => {
    const now = await json(await gateway.fetch('/admin/runtime/config'));
    for (const path of ['/admin/api/v1/dashboard/config', '/admin/api/v1/runtime/config']) {
      const answer = await gateway.fetch(path);
      expect(answer.headers.get('deprecation')).toBe('true');
      expect(answer.headers.get('sunset')).toBe('Sun, 09 Aug 2026 00:00:00 GMT');
      expect(answer.headers.get('link')).toBe('</admin/runtime/config>; rel="successor-version"');
      expect(await json(answer)).toEqual(now);
    }
  });

  it('names the path of the request, and the next page beside it', async () => {
    for (const name of ['one', 'two']) {
      expect((await gateway.fetch('/admin/auth-keys', { json: { name } })).status).toBe(201);
    }
    const answer = await gateway.fetch('/admin/api/v1/auth-keys?limit=1');
    expect(answer.headers.get('link')).toMatch(
      /^<\/admin\/auth-keys>; rel="successor-version", <\/admin\/api\/v1\/auth-keys\?limit=1&after=[^>]+>; rel="next"$/,
    );
    const odd = await gateway.fetch('/admin/api/v1/audit/x%22y?a=1');
    expect(odd.headers.get('link') ?? '').not.toContain('?');
  });

  it('has no setting that could be changed', async () => {
    expect(await json(await gateway.fetch('/admin/runtime/settings'))).toEqual({ settings: [] });
    const put = (body: unknown) => gateway.fetch('/admin/runtime/settings/anything', { method: 'PUT', json: body });
    expect(await errorOf(await put({ value: 'on' }), 404)).toMatchObject({
      code: 'runtime_setting_not_found',
      type: 'not_found_error',
    });
    expect((await errorOf(await put({}), 400)).param).toBe('value');
    expect((await errorOf(await put({ value: 1 }), 400)).param).toBe('value');
  });

  it('is read again on request, with the result of each step', async () => {
    const requestCount = () => gateway.simulated.requests.filter(({ path }) => path === '/v1/models').length;
    const before = requestCount();
    const report = await json(await gateway.fetch('/admin/runtime/refresh', { method: 'POST' }));
    expect(requestCount()).toBe(before + 1);
    expect(report).toMatchObject({
      status: 'ok',
      started_at: expect.stringMatching(/Z$/),
      finished_at: expect.stringMatching(/Z$/),
      duration_ms: expect.any(Number),
      provider_count: 1,
    });
    expect(report.model_count).toBeGreaterThan(0);
    for (const step of report.steps) {
      expect(step).toEqual({ name: expect.any(String), status: 'ok', duration_ms: expect.any(Number) });
    }
    expect(report.steps.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['provider_credentials', 'providers', 'model_list']),
    );
  });

  it('is read in part when a provider does not answer', async () => {
    gateway.simulated.control.always({ status: 500 }, { path: '/v1/models' });
    const report = await json(await gateway.fetch('/admin/runtime/refresh', { method: 'POST' }));
    gateway.simulated.control.clear();
    expect(report.status).toBe('partial');
    expect(report.steps).toContainEqual(
      expect.objectContaining({ name: 'providers', status: 'failed', message: expect.stringContaining('llamacpp') }),
    );
    expect((await json(await gateway.fetch('/admin/runtime/refresh', { method: 'POST' }))).status).toBe('ok');
  });
});

describe('a refresh', () => {
  const counts = () => ({ models: 1, providers: 1 });

  test('runs one at a time', async () => {
    const order: string[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let turn = 0;
    const run = async () => {
      const mine = turn++;
      order.push(`begin ${mine}`);
      await gates[mine]?.promise;
      order.push(`end ${mine}`);
      return { status: 'ok' as const };
    };
    const refresh = createRefresh({ steps: [{ name: 'providers', run }], counts });
    const both = Promise.all([refresh(), refresh()]);
    gates[1]?.resolve();
    gates[0]?.resolve();
    await both;
    expect(order).toEqual(['begin 0', 'end 0', 'begin 1', 'end 1']);
  });

  test('continues after a step that failed', async () => {
    const refresh = createRefresh({
      steps: [
        { name: 'first', run: () => Promise.reject(new Error('broken')) },
        { name: 'second', run: async () => ({ status: 'ok' }) },
      ],
      counts,
    });
    const report = await refresh();
    expect(report.status).toBe('partial');
    expect(report.steps).toMatchObject([
      { name: 'first', status: 'failed', error: 'broken' },
      { name: 'second', status: 'ok' },
    ]);
  });

  test('fails when no provider answered and no model is known', async () => {
    const steps = [{ name: 'providers', run: async () => ({ status: 'failed' as const }) }];
    expect((await createRefresh({ steps, counts: () => ({ models: 0, providers: 1 }) })()).status).toBe('failed');
    expect((await createRefresh({ steps, counts })()).status).toBe('partial');
  });
});
