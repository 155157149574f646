/**
 * Changes by administrators survive the gateway: killed, or stopped, and started again on the same data, from its
 * snapshots or from the log alone.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import type { Answered } from '../support/answered.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider();
let upstream = '';
let runs = 0;

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
  provider.control.clear();
  provider.control.release();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

const SMALL = 'llamacpp/simulated-small';
const LARGE = 'llamacpp/simulated-large';
const chat = '/v1/chat/completions';
const dataDir = (run: number) => join(folder.path, String(run));
const start = (run: number): Promise<ServedGateway> =>
  serve({
    dataDir: dataDir(run),
    env: { LLAMACPP_BASE_URL: upstream, DRAIN_TIMEOUT: '0s', ALLOW_PRIVATE_PROVIDERS: 'true' },
  });

async function get(url: string, path: string): Promise<Answered> {
  const answer = await ask(url, path);
  const text = await answer.text();
  expect({ path, status: answer.status, text: answer.ok ? '' : text }).toEqual({ path, status: 200, text: '' });
  return JSON.parse(text);
}

async function change(url: string, method: string, path: string, body?: object): Promise<Answered> {
  const answer = await ask(url, path, { method, ...(body === undefined ? {} : { json: body }) });
  const text = await answer.text();
  expect({ path, ok: answer.ok, text: answer.ok ? '' : text }).toEqual({ path, ok: true, text: '' });
  return text === '' ? undefined : JSON.parse(text);
}

/** A small chat request; its status and the code of its error. */
async function say(url: string, key: string, model = SMALL): Promise<{ status: number; code?: string }> {
  const answer = await ask(url, chat, { json: { model, messages: [{ role: 'user', content: 'Hi' }] }, key });
  const body = JSON.parse(await answer.text());
  return answer.status === 200 ? { status: 200 } : { status: answer.status, code: body.error.code };
}

/** Resolves once the models are listed: only then is anything compared. */
async function ready(gateway: ServedGateway, model = SMALL): Promise<ServedGateway> {
  const listed = async () => (await get(gateway.url, '/v1/models')).data.map(({ id }: Answered) => id);
  await expect.poll(listed, { timeout: 15_000 }).toContain(model);
  return gateway;
}

/** Everything an administrator can read, without values that change by themselves. */
async function everything(url: string, queries: readonly string[]): Promise<Answered> {
  const seen: Record<string, Answered> = {};
  for (const query of queries) seen[query] = withoutClock(await get(url, query));
  return seen;
}

const MOVING = new Set(['server_time', 'period_ratio', 'window_start', 'window_end', 'in_flight']);

function withoutClock(value: Answered): Answered {
  return JSON.parse(JSON.stringify(value, (name, member) => (MOVING.has(name) ? undefined : member)));
}

const LISTS = [
  '/admin/auth-keys',
  '/admin/users',
  '/admin/virtual-models',
  '/admin/model-pricing-overrides',
  '/admin/provider-credentials',
  '/admin/tagging/settings',
  '/admin/budgets',
  '/admin/budgets/settings',
  '/admin/rate-limits',
];

describe('settings of administrators', () => {
  it('are the same after the gateway was killed, stopped, and started from the log alone', async () => {
    const run = ++runs;
    let gateway = await ready(await start(run));
    const { url } = gateway;
    const key = await change(url, 'POST', '/admin/auth-keys', { name: 'one', user_path: '/team/a', labels: ['x'] });
    const gone = await change(url, 'POST', '/admin/auth-keys', { name: 'two' });
    await change(url, 'PUT', `/admin/auth-keys/${key.id}/allowed-models`, { allowed_models: [SMALL, 'fast'] });
    await change(url, 'PUT', '/admin/users', { user_path: '/team', allowed_models: ['llamacpp/'] });
    const middle = (await get(url, '/admin/history?limit=1')).entries[0].position;
    await change(url, 'POST', `/admin/auth-keys/${gone.id}/deactivate`);
    await change(url, 'PUT', '/admin/users', { user_path: '/team/b', allowed_models: [LARGE], description: 'b' });
    await change(url, 'PUT', '/admin/virtual-models', { source: 'fast', target_model: SMALL });
    await change(url, 'PUT', '/admin/virtual-models', { source: LARGE, user_paths: ['/team'] });
    await change(url, 'PUT', '/admin/model-pricing-overrides', { selector: SMALL, pricing: { per_request: 0.25 } });
    await change(url, 'PUT', '/admin/provider-credentials', {
      name: 'second',
      type: 'llamacpp',
      base_url: upstream,
      api_keys: ['a-provider-secret'],
    });
    await change(url, 'PUT', '/admin/tagging/settings', { headers: [{ header: 'x-team', prefix: 'team-' }] });
    await change(url, 'PUT', '/admin/budgets', { user_path: '/team', budget_key: { period: 'monthly' }, amount: 3 });
    await change(url, 'PUT', '/admin/budgets/settings', { monthly_reset_day: 5 });
    await change(url, 'PUT', '/admin/rate-limits', {
      user_path: '/team',
      limit_key: { period: 'hour' },
      max_requests: 1000,
    });

    expect(await say(url, key.value, 'fast')).toEqual({ status: 200 });
    await expect.poll(async () => (await get(url, '/admin/budgets')).budgets[0].spent).toBe(0.25);
    await ready(gateway, 'second/simulated-small');
    const queries = [
      ...LISTS,
      ...LISTS.filter((path) => !/credentials|settings/.test(path)).map((path) => `${path}?as_of=${middle}`),
      '/admin/history?limit=200',
      `/admin/history?subject=key:${key.id}`,
      '/admin/history?subject=user:/team/b',
      '/admin/history?subject=budget:/team',
      `/admin/explain?key=${key.id}&model=fast`,
      `/admin/explain?key=${key.id}&model=${LARGE}&as_of=${middle}`,
    ];
    const set = await everything(url, queries);
    expect(set[`/admin/users?as_of=${middle}`].users.map(({ user_path }: Answered) => user_path)).toEqual([
      '/',
      '/team',
      '/team/a',
    ]);
    expect(JSON.stringify(set)).not.toContain('a-provider-secret');

    for (const signal of ['SIGKILL', 'SIGTERM', 'SIGTERM and the snapshots removed'] as const) {
      gateway.process.kill(signal === 'SIGKILL' ? 'SIGKILL' : 'SIGTERM');
      await gateway.process.exited;
      if (signal.includes('removed')) {
        for (const name of ['views.db', 'views.db-wal', 'views.db-shm']) {
          rmSync(join(dataDir(run), name), { force: true });
        }
      }
      gateway = await ready(await ready(await start(run)), 'second/simulated-small');
      expect(await everything(gateway.url, queries), signal).toEqual(set);
      expect(await say(gateway.url, gone.value), signal).toMatchObject({ status: 401, code: 'invalid_api_key' });
      expect(await say(gateway.url, key.value, LARGE), signal).toMatchObject({ code: 'model_access_denied' });
    }
    expect(await say(gateway.url, key.value, 'fast')).toEqual({ status: 200 });
  }, 120_000);
});

describe('spending and counts', () => {
  it('are kept when the gateway is killed; what was reserved for a call in flight is spent', async () => {
    const run = ++runs;
    const first = await ready(await start(run));
    const { value } = await change(first.url, 'POST', '/admin/auth-keys', { name: 'spender', user_path: '/spender' });
    const ofPath = { user_path: '/spender' };
    await change(first.url, 'PUT', '/admin/model-pricing-overrides', {
      selector: SMALL,
      pricing: { per_request: 0.5 },
    });
    await change(first.url, 'PUT', '/admin/budgets', { ...ofPath, budget_key: { period: 'monthly' }, amount: 1.2 });
    const spent = async (url: string) => (await get(url, '/admin/budgets')).budgets[0].spent;
    expect(await say(first.url, value)).toEqual({ status: 200 });
    await expect.poll(() => spent(first.url)).toBe(0.5);
    // One is in flight, and its possible cost is reserved: there is no room for a third.
    provider.control.next({ hang: true }, { path: chat });
    const calls = () => provider.requests.filter(({ path }) => path === chat).length;
    const before = calls();
    const hanging = say(first.url, value).catch(() => 'cut off');
    await expect.poll(calls).toBe(before + 1);
    expect(await say(first.url, value)).toMatchObject({ status: 429, code: 'budget_exceeded' });

    first.process.kill('SIGKILL');
    await first.process.exited;
    expect(await hanging).toBe('cut off');
    provider.control.release();
    const second = await ready(await start(run));
    // The provider may have served the answer (ADR 105).
    expect(await spent(second.url)).toBe(1);
    expect(await say(second.url, value)).toMatchObject({ status: 429, code: 'budget_exceeded' });
  }, 60_000);

  it('of a rate limit continue after a restart', async () => {
    const run = ++runs;
    const first = await ready(await start(run));
    const { value } = await change(first.url, 'POST', '/admin/auth-keys', { name: 'counted', user_path: '/counted' });
    const limit = { user_path: '/counted', limit_key: { period: 'day' }, max_requests: 3 };
    await change(first.url, 'PUT', '/admin/rate-limits', limit);
    expect(await say(first.url, value)).toEqual({ status: 200 });
    expect(await say(first.url, value)).toEqual({ status: 200 });
    first.process.kill('SIGKILL');
    await first.process.exited;
    const second = await ready(await start(run));
    expect((await get(second.url, '/admin/rate-limits')).rate_limits[0]).toMatchObject({ requests_used: 2 });
    expect(await say(second.url, value)).toEqual({ status: 200 });
    expect(await say(second.url, value)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
  }, 60_000);
});
