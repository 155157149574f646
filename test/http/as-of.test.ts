import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway();
const admin = administrator(gateway);
const SMALL = 'llamacpp/simulated-small';

const row = (rows: Answered[], id: string) => rows.find((one) => one.id === id);
const node = (tree: Answered, path: string) => tree.users.find((one: Answered) => one.user_path === path);

describe('a list with as_of', () => {
  it('has the keys of that moment, by the time and by the position', async () => {
    const key = await admin.newKey({ labels: ['first'] });
    const created = await admin.aMomentLater();
    await admin.change('PUT', `/admin/auth-keys/${key.id}/labels`, { labels: ['second'] });
    const labelled = await admin.aMomentLater();
    await admin.change('POST', `/admin/auth-keys/${key.id}/deactivate`);
    const { entries } = await admin.get(`/admin/history?subject=key:${key.id}`);

    for (const as_of of [created, entries[2].position, entries[2].at]) {
      const rows = await admin.get(`/admin/auth-keys?as_of=${encodeURIComponent(as_of)}`);
      expect(row(rows, key.id)).toMatchObject({ labels: ['first'], enabled: true, active: true, revision: '0' });
    }
    for (const as_of of [labelled, entries[1].position]) {
      const rows = await admin.get(`/admin/auth-keys?as_of=${as_of}`);
      expect(row(rows, key.id)).toMatchObject({ labels: ['second'], enabled: true, revision: '1' });
    }
    const now = await admin.get('/admin/auth-keys');
    expect(row(now, key.id)).toMatchObject({ labels: ['second'], enabled: false });
    expect(await admin.get(`/admin/auth-keys?as_of=${entries[0].position}`)).toEqual(now);
    const before = String(Number(entries[2].position) - 1);
    expect(row(await admin.get(`/admin/auth-keys?as_of=${before}`), key.id)).toBeUndefined();
  });

  it('has the policies of that moment, and their effects', async () => {
    await admin.change('PUT', '/admin/users', { user_path: '/then', allowed_models: [SMALL] });
    const restricted = await admin.aMomentLater();
    await admin.change('PUT', '/admin/users', { user_path: '/then', allowed_models: [] });
    await admin.newKey({ user_path: '/then/key' });

    const then = await admin.get(`/admin/users?as_of=${restricted}`);
    expect(node(then, '/then')).toMatchObject({ allowed_models: [SMALL], restricted: true, effective_models: [SMALL] });
    expect(node(then, '/then/key')).toBeUndefined();
    const now = await admin.get('/admin/users');
    expect(node(now, '/then')).toMatchObject({ allowed_models: [], restricted: false });
    expect(node(now, '/then/key')).toMatchObject({ key_count: 1 });
    expect(await admin.get(`/admin/users?as_of=${await admin.aMomentLater()}`)).toEqual(now);
    expect(node(await admin.get('/admin/users?as_of=0'), '/then')).toBeUndefined();
  });

  it('has the virtual models, prices, budgets and limits of that moment, without spending and counts', async () => {
    const rows = async (path: string, list: string | undefined, as_of?: string) => {
      const answer = await admin.get(as_of === undefined ? path : `${path}?as_of=${as_of}`);
      return list === undefined ? answer : answer[list];
    };
    const period = { user_path: '/then', budget_key: { period: 'daily' } };
    const window = { user_path: '/then', limit_key: { period: 'minute' } };
    const things = [
      {
        path: '/admin/virtual-models',
        set: (model: string) => ({ source: 'quick', target_model: model }),
        first: SMALL,
        second: 'llamacpp/simulated-large',
        member: 'target_model',
        gone: { source: 'quick' },
      },
      {
        path: '/admin/budgets',
        list: 'budgets',
        set: (amount: number) => ({ ...period, amount }),
        first: 5,
        second: 7.5,
        member: 'amount',
        past: { spent: null, reserved: null, remaining: null, usage_ratio: null },
        gone: period,
      },
      {
        path: '/admin/rate-limits',
        list: 'rate_limits',
        set: (max_requests: number) => ({ ...window, max_requests }),
        first: 10,
        second: 20,
        member: 'max_requests',
        past: { requests_used: null },
        gone: window,
      },
    ];
    for (const { path, list, set, first, second, member, past, gone } of things) {
      const before = await admin.aMomentLater();
      await admin.change('PUT', path, set(first as never));
      const firstly = await admin.aMomentLater();
      await admin.change('PUT', path, set(second as never));
      const secondly = await admin.aMomentLater();
      await admin.change('DELETE', path, gone);
      expect(await rows(path, list, before), path).toEqual([]);
      const [then] = await rows(path, list, firstly);
      expect({ path, ...then }).toMatchObject({ ...past });
      expect(JSON.stringify(then), path).toContain(JSON.stringify(first));
      const [later] = await rows(path, list, secondly);
      expect(JSON.stringify(later[member] ?? later), path).toContain(JSON.stringify(second));
      expect(await rows(path, list), path).toEqual([]);
    }
    const prices = '/admin/model-pricing-overrides';
    await admin.change('PUT', prices, { selector: SMALL, pricing: { input_per_mtok: 1 } });
    const cheap = await admin.aMomentLater();
    await admin.change('PUT', prices, { selector: SMALL, pricing: { input_per_mtok: 9 } });
    expect(await rows(prices, undefined, cheap)).toMatchObject([{ selector: SMALL, pricing: { input_per_mtok: 1 } }]);
    expect(await rows(prices, undefined)).toMatchObject([{ pricing: { input_per_mtok: 9 } }]);
  });

  it('states the time of the budgets, also for a position', async () => {
    await admin.change('PUT', '/admin/budgets/%2Fdated/daily', { amount: 1 });
    const moment = await admin.aMomentLater();
    expect(Date.parse((await admin.get(`/admin/budgets?as_of=${moment}`)).state_at)).toBe(Date.parse(moment));
    const [newest] = (await admin.get('/admin/history?subject=budget:/dated')).entries;
    const { state_at, budgets } = await admin.get(`/admin/budgets?as_of=${newest.position}`);
    expect(state_at).toBe(budgets.find(({ subject }: Answered) => subject === '/dated').created_at);
    expect(await admin.get('/admin/budgets')).not.toHaveProperty('state_at');
    await admin.change('DELETE', '/admin/budgets/%2Fdated/daily', undefined);
  });

  it('is limited to the subtree of an administrator', async () => {
    const scoped = await admin.newKey({ user_path: '/inside', dashboard_access: true });
    await admin.newKey({ user_path: '/outside' });
    const rows = await admin.get(`/admin/auth-keys?as_of=${await admin.aMomentLater()}`, scoped.value);
    expect(rows.map(({ user_path }: Answered) => user_path)).toEqual(['/inside']);
  });

  it('accepts a date, and a time with any zone, also with an unencoded plus sign', async () => {
    const key = await admin.newKey();
    expect(row(await admin.get('/admin/auth-keys?as_of=2020-01-01'), key.id)).toBeUndefined();
    const abroad = new Date(Date.now() + 2 * 3_600_000).toISOString().replace('Z', '+02:00');
    expect(row(await admin.get(`/admin/auth-keys?as_of=${abroad}`), key.id)).toMatchObject({ id: key.id });
    expect(row(await admin.get(`/admin/auth-keys?as_of=${encodeURIComponent(abroad)}`), key.id)).toBeDefined();
  });
});

describe.each([
  '/admin/users',
  '/admin/auth-keys',
  '/admin/virtual-models',
  '/admin/model-pricing-overrides',
  '/admin/budgets',
  '/admin/rate-limits',
  '/admin/explain?model=x',
])('%s', (path) => {
  it.each([
    'yesterday',
    '2026-02-30',
    '2026-02-30T10:00:00Z',
    '2026-02-28T25:00:00Z',
    '2026-01-01T10:00:00',
    '-1',
    '1.5',
    '9999999999999999',
    '99999999999999999',
    new Date(Date.now() + 3_600_000).toISOString(),
  ])('refuses as_of=%s', async (as_of) => {
    const query = `${path.includes('?') ? '&' : '?'}as_of=${as_of}`;
    expect(await admin.refused(path + query, 400)).toMatchObject({ param: 'as_of' });
  });
});
