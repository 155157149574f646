/** Budgets and rate limits over a restart, and while they are off. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json, modelsListed, user } from '../support/with-gateway.ts';

const MODEL = 'llamacpp/simulated-small';
let dataDir: string;
let running: TestGateway | undefined;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'chancery-limits-'));
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

async function start(env: Record<string, string> = {}): Promise<TestGateway> {
  await running?.close();
  running = await startTestGateway({ dataDir, env });
  await modelsListed(running);
  return running;
}

const put = (gateway: TestGateway, path: string, body: unknown) =>
  gateway.fetch(path, { method: 'PUT', body: JSON.stringify(body) });

async function chat(gateway: TestGateway, userPath: string): Promise<number> {
  const answer = await gateway.fetch('/v1/chat/completions', {
    json: { model: MODEL, messages: user('hello') },
    headers: { 'x-gateway-user-path': userPath },
  });
  await answer.text();
  return answer.status;
}

const budgets = async (gateway: TestGateway) => (await json(await gateway.fetch('/admin/budgets'))).budgets;
const limits = async (gateway: TestGateway) => (await json(await gateway.fetch('/admin/rate-limits'))).rate_limits;

/** Two requests under a budget for two and a half, and limits with room for one more. */
async function used(gateway: TestGateway): Promise<void> {
  await put(gateway, '/admin/model-pricing-overrides', { selector: MODEL, pricing: { per_request: 1 } });
  await put(gateway, '/admin/budgets/%2Fteam/monthly', { amount: 2.5 });
  await put(gateway, '/admin/budgets/settings', { daily_reset_hour: 3 });
  await put(gateway, '/admin/rate-limits', { user_path: '/team', limit_key: { period: 'day' }, max_requests: 3 });
  await put(gateway, '/admin/rate-limits', {
    scope: 'provider',
    subject: 'llamacpp',
    limit_key: { period: 'day' },
    max_tokens: 1_000_000,
    max_requests: 1000,
  });
  expect([await chat(gateway, '/team/a'), await chat(gateway, '/team')]).toEqual([200, 200]);
}

describe('after a restart', () => {
  test.each([
    ['from its snapshots', () => {}],
    ['from the log alone', () => rmSync(join(dataDir, 'views.db'))],
  ])('everything is unchanged: %s', async (_name, lose) => {
    const before = await start();
    await used(before);
    const counted = (await limits(before)).map(countsOf);
    const spent = (await budgets(before)).map(withoutNow);
    await before.close();
    running = undefined;
    lose();
    const after = await start();
    expect((await limits(after)).map(countsOf)).toEqual(counted);
    expect((await budgets(after)).map(withoutNow)).toEqual(spent);
    expect(spent).toMatchObject([{ subject: '/team', spent: 2, remaining: 0.5, amount: 2.5 }]);
    expect(await json(await after.fetch('/admin/budgets/settings'))).toMatchObject({ daily_reset_hour: 3 });
    expect(await chat(after, '/team')).toBe(429);
    await put(after, '/admin/budgets/%2Fteam/monthly', { amount: 100 });
    expect([await chat(after, '/team'), await chat(after, '/team')]).toEqual([200, 429]);
  });

  test('declared ones follow the configuration, and those made by hand stay', async () => {
    const before = await start({
      SET_BUDGET_A: 'daily=10,weekly=50',
      SET_BUDGET_: 'monthly=1000',
      SET_RATE_LIMIT_A: 'rpm=10',
    });
    await put(before, '/admin/budgets/%2Fb/daily', { amount: 1 });
    const after = await start({ SET_BUDGET_A: 'daily=20', SET_BUDGET_B: 'daily=2' });
    const rows = (await budgets(after)).map(({ subject, period_label, amount, source }: Record<string, unknown>) => [
      subject,
      period_label,
      amount,
      source,
    ]);
    expect(rows).toEqual([
      ['/a', 'daily', 20, 'config'],
      ['/b', 'daily', 2, 'config'],
    ]);
    expect(await limits(after)).toEqual([]);
  });

  test('nothing is written with the same configuration', async () => {
    const env = { SET_BUDGET_A: 'daily=10', SET_RATE_LIMIT_A: 'rpm=10,concurrent=2' };
    const first = await budgets(await start(env));
    const again = await start(env);
    expect(
      (await budgets(again)).map(({ updated_at, revision }: Record<string, unknown>) => [updated_at, revision]),
    ).toEqual(first.map(({ updated_at, revision }: Record<string, unknown>) => [updated_at, revision]));
  });
});

describe('while they are off', () => {
  test('budgets are neither shown nor enforced', async () => {
    const on = await start();
    await used(on);
    const off = await start({ BUDGETS_ENABLED: 'false' });
    const refused = await off.fetch('/admin/budgets');
    expect(await errorOf(refused, 503)).toMatchObject({ code: 'feature_unavailable' });
    expect((await put(off, '/admin/budgets/%2Fx/daily', { amount: 0 })).status).toBe(400);
    expect((await put(off, '/admin/budgets/%2Fx/daily', { amount: 1 })).status).toBe(503);
    expect(await chat(off, '/team')).toBe(200);
    expect((await json(await off.fetch('/v1/usage', { headers: { 'x-gateway-user-path': '/team' } }))).budgets).toEqual(
      [],
    );
    // What was spent meanwhile is counted again.
    const again = await start();
    expect(await budgets(again)).toMatchObject([{ spent: 3 }]);
  });

  test('budgets are off too when usage is not counted', async () => {
    const off = await start({ USAGE_ENABLED: 'false' });
    expect((await off.fetch('/admin/budgets')).status).toBe(503);
    expect((await off.fetch('/admin/rate-limits')).status).toBe(200);
  });

  test('rate limits are neither shown nor enforced', async () => {
    const off = await start({ RATE_LIMITS_ENABLED: 'false', SET_RATE_LIMIT_TEAM: 'rpm=1' });
    expect(await errorOf(await off.fetch('/admin/rate-limits'), 503)).toMatchObject({ code: 'feature_unavailable' });
    expect([await chat(off, '/team'), await chat(off, '/team')]).toEqual([200, 200]);
  });
});

function withoutNow({ period_ratio: _, ...row }: Record<string, unknown>) {
  return row;
}

function countsOf({ subject, requests_used, tokens_used, in_flight }: Record<string, unknown>) {
  return { subject, requests_used, tokens_used, in_flight };
}
