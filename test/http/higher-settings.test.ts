/**
 * A setting of a higher administrator at the root of a subtree, or on a key, binds the administrators below: they read
 * it, make it tighter, and return to it, but never relax it.
 */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { withBothKinds } from '../support/both-kinds.ts';
import { type ManagedKey, newKey, put } from '../support/managed-keys.ts';
import { errorOf, json } from '../support/with-gateway.ts';

const { gateway } = withBothKinds();
type Administrator = Pick<ManagedKey, 'fetch'>;

const SMALL = 'llamacpp/simulated-small';
const LARGE = 'llamacpp/simulated-large';
const NATIVE = 'openai/simulated-small';

let global: ManagedKey;
let ofTheTeam: ManagedKey;
beforeAll(async () => {
  global = await newKey(gateway, { dashboard_access: true });
  ofTheTeam = await newKey(gateway, { user_path: '/team', dashboard_access: true });
});

/** Each test has a subtree with an administrator at its root, a higher administrator, and a peer. */
let turn = 0;
let root = '';
let admin: ManagedKey;
let peer: ManagedKey;
beforeEach(async () => {
  root = `/team/t${++turn}`;
  admin = await newKey(gateway, { user_path: root, dashboard_access: true });
  peer = await newKey(gateway, { user_path: root, dashboard_access: true });
});

const higher: [string, () => Administrator][] = [
  ['the master key', () => gateway],
  ['a global administrator', () => global],
  ['an administrator of an ancestor', () => ofTheTeam],
];

async function refusal(answer: Promise<Response>): Promise<string | null> {
  const { code, type } = await errorOf(await answer, 403);
  expect(type).toBe('permission_error');
  return code;
}
const done = async (answer: Promise<Response>): Promise<Answered> => {
  const response = await answer;
  const text = await response.text();
  expect(response.status, text).toBeLessThan(300);
  return text === '' ? {} : JSON.parse(text);
};

/** One kind of setting at a user path, with values from the tightest on. */
interface Kind {
  readonly name: string;
  readonly tight: unknown;
  readonly bound: unknown;
  readonly loose: unknown;
  set(by: Administrator, path: string, value: unknown): Promise<Response>;
  remove(by: Administrator, path: string): Promise<Response>;
  reset?(by: Administrator, path: string): Promise<Response>;
  read(by: Administrator, path: string): Promise<unknown>;
}

const kinds: Kind[] = [
  {
    name: 'a policy',
    tight: [SMALL],
    bound: [SMALL, NATIVE],
    loose: [SMALL, LARGE],
    set: (by, path, value) => by.fetch('/admin/users', put({ user_path: path, allowed_models: value })),
    remove: (by, path) => by.fetch(`/admin/users?user_path=${path}`, { method: 'DELETE' }),
    async read(by, path) {
      const { users } = await json(await by.fetch('/admin/users'));
      return users.find((user: Answered) => user.user_path === path)?.allowed_models;
    },
  },
  {
    name: 'a budget',
    tight: 5,
    bound: 10,
    loose: 10.5,
    set: (by, path, value) =>
      by.fetch('/admin/budgets', put({ user_path: path, budget_key: { period: 'daily' }, amount: value })),
    remove: (by, path) => by.fetch(`/admin/budgets/${encodeURIComponent(path)}/daily`, { method: 'DELETE' }),
    reset: (by, path) => by.fetch('/admin/budgets/reset-one', { json: { user_path: path, period: 'daily' } }),
    async read(by, path) {
      const { budgets } = await json(await by.fetch('/admin/budgets'));
      return budgets.find((budget: Answered) => budget.user_path === path)?.amount;
    },
  },
  ...(
    [
      [
        { max_requests: 5, max_tokens: 100 },
        { max_requests: 10, max_tokens: 100 },
        { max_requests: 11, max_tokens: 1 },
      ],
      [{ max_requests: 10, max_tokens: 9 }, { max_requests: 10 }, { max_tokens: 10 }],
    ] as const
  ).map(
    ([tight, bound, loose]): Kind => ({
      name: `a rate limit of ${JSON.stringify(bound)}`,
      tight,
      bound,
      loose,
      set: (by, path, value) =>
        by.fetch('/admin/rate-limits', put({ user_path: path, limit_key: { period: 'minute' }, ...Object(value) })),
      remove: (by, path) =>
        by.fetch('/admin/rate-limits', {
          method: 'DELETE',
          json: { user_path: path, limit_key: { period: 'minute' } },
        }),
      reset: (by, path) => by.fetch('/admin/rate-limits/reset-one', { json: { user_path: path, period: 'minute' } }),
      async read(by, path) {
        const { rate_limits } = await json(await by.fetch('/admin/rate-limits'));
        const found = rate_limits.find((limit: Answered) => limit.user_path === path);
        if (found === undefined) return undefined;
        const { max_requests, max_tokens } = found;
        return {
          ...(max_requests === undefined ? {} : { max_requests }),
          ...(max_tokens === undefined ? {} : { max_tokens }),
        };
      },
    }),
  ),
];

describe.each(kinds.map((kind) => [kind.name, kind] as const))('%s', (_name, kind) => {
  it.each(higher)('that %s set at the root of a subtree is read there and not relaxed', async (_by, by) => {
    await done(kind.set(by(), root, kind.bound));
    for (const one of [admin, peer]) {
      expect(await kind.read(one, root)).toEqual(kind.bound);
      expect(await refusal(kind.set(one, root, kind.loose))).toBe('set_by_higher_administrator');
      expect(await refusal(kind.remove(one, root))).toBe('set_by_higher_administrator');
      if (kind.reset !== undefined) expect(await refusal(kind.reset(one, root))).toBe('set_by_higher_administrator');
    }
    expect(await kind.read(gateway, root)).toEqual(kind.bound);
  });

  it('is made tighter, and set back to the value of the higher administrator', async () => {
    await done(kind.set(gateway, root, kind.bound));
    await done(kind.set(admin, root, kind.tight));
    expect(await kind.read(gateway, root)).toEqual(kind.tight);
    for (const one of [admin, peer]) {
      expect(await refusal(kind.remove(one, root))).toBe('set_by_higher_administrator');
      expect(await refusal(kind.set(one, root, kind.loose))).toBe('set_by_higher_administrator');
      if (kind.reset !== undefined) expect(await refusal(kind.reset(one, root))).toBe('set_by_higher_administrator');
    }
    await done(kind.set(peer, root, kind.bound));
    expect(await kind.read(gateway, root)).toEqual(kind.bound);
  });

  it('is relaxed and removed by higher administrators, and then binds no longer', async () => {
    await done(kind.set(gateway, root, kind.tight));
    await done(kind.set(ofTheTeam, root, kind.bound));
    expect(await refusal(kind.set(admin, root, kind.loose))).toBe('set_by_higher_administrator');
    await done(kind.remove(global, root));
    await done(kind.set(admin, root, kind.loose));
    if (kind.reset !== undefined) await done(kind.reset(admin, root));
    await done(kind.remove(peer, root));
  });

  it('that an administrator set at the root of its own subtree is its own', async () => {
    await done(kind.set(admin, root, kind.tight));
    await done(kind.set(peer, root, kind.loose));
    await done(kind.set(admin, root, kind.bound));
    if (kind.reset !== undefined) await done(kind.reset(peer, root));
    await done(kind.remove(admin, root));
  });

  it('below the root of the subtree can be changed by its administrator, even when a higher one set it', async () => {
    for (const by of [gateway, global, ofTheTeam]) {
      await done(kind.set(by, `${root}/below`, kind.bound));
      await done(kind.set(admin, `${root}/below`, kind.loose));
      if (kind.reset !== undefined) await done(kind.reset(admin, `${root}/below`));
      await done(kind.remove(admin, `${root}/below`));
    }
  });

  it('of a lower administrator does not bind a higher one', async () => {
    await done(kind.set(admin, root, kind.tight));
    for (const by of [ofTheTeam, global, gateway]) {
      await done(kind.set(by, root, kind.tight));
      await done(kind.set(by, root, kind.loose));
    }
  });

  it('also binds when it was set while the administrator of the subtree could not sign in', async () => {
    const gone = await newKey(gateway, { user_path: '/team', dashboard_access: true });
    await done(kind.set(gone, root, kind.bound));
    await done(gateway.fetch(`/admin/auth-keys/${gone.id}/deactivate`, { method: 'POST' }));
    expect(await refusal(kind.set(admin, root, kind.loose))).toBe('set_by_higher_administrator');
  });
});

describe('a budget or limit of another period', () => {
  it('is a separate setting', async () => {
    await done(gateway.fetch('/admin/budgets', put({ user_path: root, budget_key: { period: 'daily' }, amount: 1 })));
    const weekly = { user_path: root, budget_key: { period: 'weekly' } };
    await done(admin.fetch('/admin/budgets', put({ ...weekly, amount: 1000 })));
    await done(admin.fetch('/admin/budgets', { method: 'DELETE', json: weekly }));
  });
});

const allowedModels = (by: Administrator, id: string, models: readonly string[]) =>
  by.fetch(`/admin/auth-keys/${id}/allowed-models`, put({ allowed_models: models }));
const labels = (by: Administrator, id: string, all: readonly string[]) =>
  by.fetch(`/admin/auth-keys/${id}/labels`, put({ labels: all }));

describe("the administrator's own key", () => {
  it.each(higher)('cannot extend its own models when %s restricted them', async (_by, by) => {
    await done(allowedModels(by(), admin.id, [SMALL, NATIVE]));
    for (const wider of [[], ['/'], [SMALL, LARGE], ['simulated-small'], ['llamacpp/'], [SMALL, NATIVE, LARGE]]) {
      expect(await refusal(allowedModels(admin, admin.id, wider)), String(wider)).toBe('set_by_higher_administrator');
    }
    await done(allowedModels(admin, admin.id, [SMALL]));
    expect(await refusal(allowedModels(admin, admin.id, [SMALL, LARGE]))).toBe('set_by_higher_administrator');
    await done(allowedModels(admin, admin.id, [NATIVE, SMALL]));
  });

  it('is restricted by its creator from its creation on', async () => {
    const restricted = await newKey(gateway, { user_path: root, dashboard_access: true, allowed_models: [SMALL] });
    expect(await refusal(allowedModels(restricted, restricted.id, []))).toBe('set_by_higher_administrator');
  });

  it('is restricted by the master key even as a global administrator', async () => {
    const all = await newKey(gateway, { dashboard_access: true, allowed_models: [SMALL], user_path_header: false });
    expect(await refusal(allowedModels(all, all.id, []))).toBe('set_by_higher_administrator');
    const header = (yes: boolean) =>
      all.fetch(`/admin/auth-keys/${all.id}/user-path-header`, put({ user_path_header: yes }));
    expect(await refusal(header(true))).toBe('set_by_higher_administrator');
    await done(header(false));
    // It may change policies at paths: it administers all of them.
    await done(gateway.fetch('/admin/users', put({ user_path: root, allowed_models: [SMALL] })));
    await done(all.fetch(`/admin/users?user_path=${root}`, { method: 'DELETE' }));
  });

  it('keeps the labels that a higher administrator gave it', async () => {
    await done(labels(gateway, admin.id, ['metered']));
    expect(await refusal(labels(admin, admin.id, []))).toBe('set_by_higher_administrator');
    const rename = (from: string) => admin.fetch('/admin/auth-keys/labels/rename', put({ from, to: 'other' }));
    expect(await refusal(rename('metered'))).toBe('set_by_higher_administrator');
    await done(labels(admin, admin.id, ['mine', 'metered']));
    await done(rename('mine'));
    await done(labels(admin, admin.id, ['metered']));
  });

  it('can be locked out and deactivated by itself', async () => {
    await done(admin.fetch(`/admin/auth-keys/${admin.id}/dashboard-access`, put({ dashboard_access: false })));
    await done(peer.fetch(`/admin/auth-keys/${peer.id}/deactivate`, { method: 'POST' }));
  });
});

describe('another key', () => {
  it('does not get more models than its administrator has, when that one is restricted', async () => {
    const other = await newKey(gateway, { user_path: root, allowed_models: [LARGE, NATIVE] });
    await done(allowedModels(gateway, admin.id, [SMALL]));
    for (const wider of [[], [SMALL, LARGE, NATIVE]]) {
      expect(await refusal(allowedModels(admin, other.id, wider))).toBe('exceeds_own_access');
    }
    await done(allowedModels(admin, other.id, [LARGE]));
    await done(allowedModels(admin, other.id, [SMALL]));
    expect(await refusal(allowedModels(admin, other.id, [SMALL, LARGE]))).toBe('exceeds_own_access');
    await done(allowedModels(admin, other.id, [LARGE, NATIVE]));
  });

  it('gets any models from an administrator that is not restricted', async () => {
    const other = await newKey(gateway, { user_path: root, allowed_models: [SMALL], labels: ['metered'] });
    await done(allowedModels(admin, other.id, []));
    await done(labels(admin, other.id, []));
  });
});

describe('a new key', () => {
  const DAY = 86_400_000;
  const inDays = (days: number) => new Date(Date.now() + days * DAY).toISOString();
  const make = (by: Administrator, body: object) => by.fetch('/admin/auth-keys', { json: { name: 'x', ...body } });

  it.each([
    ['of a subtree', () => ({ user_path: root })],
    ['of everything', () => ({})],
  ])('never exceeds its creator, an administrator %s', async (_what, scope) => {
    const expires_at = inDays(10);
    const creator = await newKey(gateway, { ...scope(), dashboard_access: true, allowed_models: [SMALL], expires_at });
    const before = await json(await gateway.fetch('/admin/auth-keys'));
    for (const wider of [
      { allowed_models: [] },
      { allowed_models: ['/'] },
      { allowed_models: [SMALL, LARGE] },
      { allowed_models: ['simulated-small'] },
      { expires_at: inDays(11) },
    ]) {
      expect(await refusal(make(creator, wider)), JSON.stringify(wider)).toBe('exceeds_own_access');
    }
    expect(await json(await gateway.fetch('/admin/auth-keys'))).toEqual(before);
    expect(await done(make(creator, {}))).toMatchObject({ allowed_models: [SMALL], expires_at });
    expect(await done(make(creator, { expires_at: null }))).toMatchObject({ expires_at });
    const sooner = inDays(9);
    expect(await done(make(creator, { expires_at: sooner, allowed_models: [SMALL] }))).toMatchObject({
      allowed_models: [SMALL],
      expires_at: sooner,
    });
  });

  it('of an unrestricted creator is created as requested', async () => {
    expect(await done(make(admin, { allowed_models: [], expires_at: inDays(1000) }))).toMatchObject({
      allowed_models: [],
      user_path: root,
    });
  });

  it('ignores the user path header when its creator does', async () => {
    const creator = await newKey(gateway, { dashboard_access: true, user_path_header: false });
    expect(await done(make(creator, {}))).toMatchObject({ user_path_header: false });
    expect(await refusal(make(creator, { user_path_header: true }))).toBe('exceeds_own_access');
  });

  it('cannot be used by its creator to lift its own restrictions', async () => {
    await done(allowedModels(gateway, admin.id, [SMALL]));
    const helper = await newKey(gateway, { dashboard_access: true }, admin);
    expect(helper.created).toMatchObject({ allowed_models: [SMALL], user_path: root });
    expect(await refusal(allowedModels(helper, admin.id, []))).toBe('exceeds_own_access');
    expect(await refusal(allowedModels(helper, helper.id, []))).toBe('exceeds_own_access');
    expect(await refusal(allowedModels(admin, helper.id, []))).toBe('exceeds_own_access');
  });
});
