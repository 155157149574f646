/** An administrator of a subtree sees and changes that subtree only; anything outside looks as if it did not exist. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { withBothKinds } from '../support/both-kinds.ts';
import { type ManagedKey, newKey, put, setPolicy } from '../support/managed-keys.ts';
import { errorOf, json } from '../support/with-gateway.ts';

const kinds = withBothKinds();
const { gateway } = kinds;

let admin: ManagedKey;
let inside: ManagedKey;
let outside: ManagedKey;
let pathless: ManagedKey;

beforeAll(async () => {
  admin = await newKey(gateway, { user_path: '/team', dashboard_access: true });
  inside = await newKey(gateway, { user_path: '/team/a' });
  outside = await newKey(gateway, { user_path: '/team-b' });
  pathless = await newKey(gateway);
});

const anywhere = { headers: { 'x-gateway-user-path': '/' } };

describe('GET /admin/access', () => {
  it('returns what a credential administers', async () => {
    const root = await newKey(gateway, { user_path: '/', dashboard_access: true });
    const free = await newKey(gateway, { dashboard_access: true });
    expect(await json(await gateway.fetch('/admin/access'))).toEqual({ scope: 'global' });
    expect(await json(await root.fetch('/admin/access'))).toEqual({ scope: 'global' });
    expect(await json(await free.fetch('/admin/access'))).toEqual({ scope: 'global' });
    expect(await json(await admin.fetch('/admin/access'))).toEqual({ scope: 'user_path', user_path: '/team' });
  });

  it('is not changed by a header', async () => {
    expect(await json(await admin.fetch('/admin/access', anywhere))).toEqual({
      scope: 'user_path',
      user_path: '/team',
    });
    const narrowed = { headers: { 'x-gateway-user-path': '/team/a' } };
    expect(await json(await admin.fetch('/admin/access', narrowed))).toMatchObject({ user_path: '/team' });
    expect(await json(await gateway.fetch('/admin/access', narrowed))).toEqual({ scope: 'global' });
  });

  it('follows dashboard access at once', async () => {
    const key = await newKey(gateway);
    const set = (yes: boolean) =>
      gateway.fetch(`/admin/auth-keys/${key.id}/dashboard-access`, put({ dashboard_access: yes }));
    expect(await errorOf(await key.fetch('/admin/access'), 403)).toMatchObject({
      code: 'dashboard_access_denied',
      type: 'permission_error',
    });
    await set(true);
    expect((await key.fetch('/admin/access')).status).toBe(200);
    await set(false);
    expect((await key.fetch('/admin/access')).status).toBe(403);
    expect((await key.fetch('/v1/models')).status).toBe(200);
  });
});

describe('keys', () => {
  it('are those of the subtree', async () => {
    for (const init of [{}, anywhere]) {
      const ids = (await json(await admin.fetch('/admin/auth-keys', init))).map(({ id }: Answered) => id);
      expect(ids).toEqual(expect.arrayContaining([admin.id, inside.id]));
      for (const other of [outside, pathless]) expect(ids).not.toContain(other.id);
    }
  });

  it('are created at the root of the subtree by default', async () => {
    const made = await newKey(gateway, {}, admin);
    expect(made.created.user_path).toBe('/team');
    expect((await newKey(gateway, { user_path: '' }, admin)).created.user_path).toBe('/team');
    expect((await newKey(gateway, { user_path: '/team/x/y' }, admin)).created.user_path).toBe('/team/x/y');
  });

  it.each(['/', '/team-b', '/tea', '/other'])('are not created at %s', async (path) => {
    const before = await json(await gateway.fetch('/admin/auth-keys'));
    const refused = await admin.fetch('/admin/auth-keys', { json: { name: 'x', user_path: path } });
    expect(await errorOf(refused, 403)).toMatchObject({
      code: 'user_path_out_of_scope',
      type: 'permission_error',
      param: 'user_path',
    });
    expect(await json(await gateway.fetch('/admin/auth-keys'))).toEqual(before);
  });

  it('with dashboard access, created here, administer their own subtree', async () => {
    const made = await newKey(gateway, { user_path: '/team/x', dashboard_access: true }, admin);
    expect(await json(await made.fetch('/admin/access'))).toEqual({ scope: 'user_path', user_path: '/team/x' });
    const refused = await made.fetch('/admin/auth-keys', { json: { name: 'x', user_path: '/team' } });
    expect((await errorOf(refused, 403)).code).toBe('user_path_out_of_scope');
  });

  it.each([
    ['labels', 'PUT', { labels: [] }],
    ['allowed-models', 'PUT', { allowed_models: [] }],
    ['dashboard-access', 'PUT', { dashboard_access: true }],
    ['deactivate', 'POST', undefined],
  ])('outside the subtree are not found: %s', async (path, method, body) => {
    const change = (id: string) => admin.fetch(`/admin/auth-keys/${id}/${path}`, { method, json: body });
    const missing = await errorOf(await change('none'), 404);
    for (const { id } of [outside, pathless]) {
      const { message, ...error } = await errorOf(await change(id), 404);
      expect({ ...error, message: message.replace(id, 'none') }).toEqual(missing);
    }
    const rows = await json(await gateway.fetch('/admin/auth-keys'));
    for (const { id } of [outside, pathless]) {
      expect(rows.find((row: Answered) => row.id === id)).toMatchObject({ revision: '0', active: true });
    }
    expect((await change(inside.id)).status).toBeLessThan(300);
    inside = await newKey(gateway, { user_path: '/team/a' });
  });

  it('have labels renamed in the subtree alone', async () => {
    const mine = await newKey(gateway, { user_path: '/team/a', labels: ['shared'] });
    const theirs = await newKey(gateway, { user_path: '/team-b', labels: ['shared'] });
    const renamed = await admin.fetch('/admin/auth-keys/labels/rename', put({ from: 'shared', to: 'ours' }));
    expect(await json(renamed)).toMatchObject({ renamed: 1 });
    const rows = await json(await gateway.fetch('/admin/auth-keys'));
    const labels = (id: string) => rows.find((row: Answered) => row.id === id).labels;
    expect(labels(mine.id)).toEqual(['ours']);
    expect(labels(theirs.id)).toEqual(['shared']);
  });
});

describe('users', () => {
  const paths = async (init = {}) =>
    (await json(await admin.fetch('/admin/users', init))).users.map(({ user_path }: Answered) => user_path);

  it('are those of the subtree, with the policies inherited from above', async () => {
    await setPolicy(gateway, '/', ['simulated-small']);
    await setPolicy(gateway, '/team-b/c', []);
    for (const init of [{}, anywhere]) {
      const seen = await paths(init);
      expect(seen).toEqual(expect.arrayContaining(['/team', '/team/a']));
      expect(seen.every((path: string) => path === '/team' || path.startsWith('/team/'))).toBe(true);
    }
    const { users } = await json(await admin.fetch('/admin/users'));
    expect(users[0]).toMatchObject({ user_path: '/team', inherited_from: ['/'], restricted: true });
    await gateway.fetch('/admin/users?user_path=/', { method: 'DELETE' });
  });

  it('are set at the root of the subtree by default', async () => {
    await admin.fetch('/admin/users', put({ allowed_models: ['simulated-small'] }));
    const { users } = await json(await admin.fetch('/admin/users'));
    expect(users[0]).toMatchObject({ user_path: '/team', configured: true, allowed_models: ['simulated-small'] });
    expect((await admin.fetch('/admin/users', { method: 'DELETE' })).status).toBe(200);
    expect((await admin.fetch('/admin/users', put({ user_path: '/team/new', allowed_models: [] }))).status).toBe(200);
    expect(await paths()).toContain('/team/new');
  });

  it.each(['/', '/team-b', '/other/team'])('are not set, or removed, at %s', async (path) => {
    const before = await json(await gateway.fetch('/admin/users'));
    const set = await admin.fetch('/admin/users', put({ user_path: path, allowed_models: [] }));
    expect((await errorOf(set, 403)).code).toBe('user_path_out_of_scope');
    const removed = await admin.fetch(`/admin/users?user_path=${path}`, { method: 'DELETE' });
    expect((await errorOf(removed, 403)).code).toBe('user_path_out_of_scope');
    expect(await json(await gateway.fetch('/admin/users'))).toEqual(before);
  });
});

describe('objects stored on /v1', () => {
  const model = 'llamacpp/simulated-small';
  const made = async (key: ManagedKey) =>
    (await json(await key.fetch('/v1/responses', { json: { model, input: 'hi' } }))).id;
  const get = (key: ManagedKey, id: string, init = {}) => key.fetch(`/v1/responses/${id}`, init);

  it('are found by keys at their path or above it, whatever the header names', async () => {
    const own = await made(inside);
    for (const key of [inside, admin]) expect((await get(key, own)).status).toBe(200);
    expect((await get(pathless, own)).status).toBe(404);
    expect((await get(outside, own)).status).toBe(404);
    expect((await get(outside, own, { headers: { 'x-gateway-user-path': '/team/a' } })).status).toBe(404);
    const theirs = await made(outside);
    for (const key of [inside, admin]) {
      expect((await get(key, theirs)).status).toBe(404);
      expect((await get(key, theirs, anywhere)).status).toBe(404);
      expect((await key.fetch(`/v1/responses/${theirs}`, { method: 'DELETE' })).status).toBe(404);
    }
  });

  it('without a path are found by their creator, and by no administrator of a subtree', async () => {
    const id = await made(pathless);
    expect((await get(pathless, id)).status).toBe(200);
    expect((await get(await newKey(gateway), id)).status).toBe(404);
    expect((await get(admin, id)).status).toBe(404);
  });

  it('are not looked up at a provider for a key that does not see everything', async () => {
    const kept = await json(
      await gateway.fetch('/v1/responses', { json: { model: 'openai/simulated-small', input: 'hi', store: true } }),
    );
    const direct = await fetch(`${kinds.nativeUrl}/v1/responses`.replace('/v1/v1', '/v1'), {
      method: 'POST',
      headers: { authorization: 'Bearer sk-native', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'simulated-small', input: 'hi' }),
    });
    const { id } = await json(direct);
    expect(id).not.toBe(kept.id);
    expect((await gateway.fetch(`/v1/responses/${id}?provider=openai`)).status).toBe(200);
    const global = await newKey(gateway, { dashboard_access: true });
    expect((await get(global, `${id}?provider=openai`)).status).toBe(200);
    const before = kinds.nativeProvider.requests.length;
    expect((await get(admin, `${id}?provider=openai`)).status).toBe(404);
    expect((await get(admin, `${id}?provider=openai`, anywhere)).status).toBe(404);
    expect((await get(pathless, `${id}?provider=openai`)).status).toBe(404);
    expect(kinds.nativeProvider.requests.length).toBe(before);
  });
});

describe('objects of the whole gateway', () => {
  const isFor = ['/', '/team', '/team/a', '/team-b', '/other/team'];
  const toldOf = ['/', '/team', '/team/a'];

  it('are listed with the user paths inside the subtree only', async () => {
    for (const [source, userPaths] of [
      ['for-some', isFor],
      ['for-others', ['/team-b']],
    ] as const) {
      const made = await gateway.fetch(
        '/admin/virtual-models',
        put({ source, target_model: 'llamacpp/simulated-small', user_paths: userPaths }),
      );
      expect(made.status).toBe(200);
    }
    const explained = await admin.fetch('/admin/explain?model=for-some');
    expect((await json(explained)).steps[0]).toMatchObject({ check: 'virtual model', list: toldOf });
    await errorOf(await admin.fetch('/admin/explain?model=for-others'), 404);
    const all = await json(await gateway.fetch('/admin/explain?model=for-some'));
    expect(all.steps[0]).toMatchObject({ list: isFor });
  });

  it('include policies of models, with the user paths inside the subtree only', async () => {
    const source = 'llamacpp/simulated-large';
    const accessSeenBy = async (by: Pick<ManagedKey, 'fetch'>) => {
      const rows: Answered[] = await json(await by.fetch('/admin/models'));
      return rows.find(({ selector }) => selector === source)?.access;
    };
    await gateway.fetch('/admin/virtual-models', put({ source, user_paths: isFor }));
    expect(await accessSeenBy(admin)).toMatchObject({ user_paths: toldOf, override: { user_paths: toldOf } });
    expect(await accessSeenBy(gateway)).toMatchObject({ user_paths: isFor, override: { user_paths: isFor } });
    await gateway.fetch('/admin/virtual-models', put({ source, user_paths: ['/team-b'] }));
    expect(await accessSeenBy(admin)).toMatchObject({ effective_enabled: false, user_paths: [] });
    await gateway.fetch('/admin/virtual-models', { method: 'DELETE', json: { source } });
  });
});
