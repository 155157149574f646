import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { startTestGateway } from '../support/gateway.ts';
import { newKey, put, setPolicy } from '../support/managed-keys.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

const declared = [
  { path: '/declared', allowed_models: ['llamacpp/*'], description: 'by the operator' },
  { path: 'declared/open', allowed_models: [] },
];
const gateway = withGateway({ env: { USERS: JSON.stringify(declared) } });
const small = 'llamacpp/simulated-small';
const large = 'llamacpp/simulated-large';
const embed = 'llamacpp/simulated-embed';

async function nodes(): Promise<Answered[]> {
  const { users, ...others } = await json(await gateway.fetch('/admin/users'));
  expect(others).toEqual({});
  return users;
}

async function nodeAt(path: string): Promise<Answered> {
  return (await nodes()).find(({ user_path }) => user_path === path);
}

const remove = (path: string, headers = {}) =>
  gateway.fetch(`/admin/users?user_path=${encodeURIComponent(path)}`, { method: 'DELETE', headers });

describe('GET /admin/users', () => {
  it('returns every path that has a policy or a key, and all above them, sorted by path', async () => {
    await setPolicy(gateway, '/org/team-b/x', ['simulated-small']);
    await newKey(gateway, { user_path: '/org/team' });
    await newKey(gateway, { user_path: '/org/team' });
    const paths = (await nodes()).map(({ user_path }) => user_path);
    expect(paths).toEqual([...paths].sort());
    expect(paths).toEqual(
      expect.arrayContaining(['/', '/declared', '/declared/open', '/org', '/org/team', '/org/team-b', '/org/team-b/x']),
    );
    expect(await nodeAt('/org/team')).toEqual({
      user_path: '/org/team',
      allowed_models: [],
      configured: false,
      key_count: 2,
      inherited_from: [],
      restricted: false,
      effective_models: expect.arrayContaining([small, large, embed]),
      managed: false,
    });
    expect(await nodeAt('/org/team-b')).toMatchObject({ configured: false, key_count: 0, managed: false });
  });

  it('returns the effective models of each path, after every list above', async () => {
    await setPolicy(gateway, '/t', ['simulated-small', large]);
    await setPolicy(gateway, '/t/a', ['*']);
    await setPolicy(gateway, '/t/a/b', ['simulated-small', 'simulated-embed']);
    await setPolicy(gateway, '/t/a/c', ['simulated-embed']);
    expect(await nodeAt('/t')).toMatchObject({
      allowed_models: ['simulated-small', large],
      configured: true,
      inherited_from: [],
      restricted: true,
      effective_models: [small, large],
    });
    expect(await nodeAt('/t/a')).toMatchObject({
      allowed_models: ['/'],
      inherited_from: ['/t'],
      effective_models: [small, large],
    });
    expect(await nodeAt('/t/a/b')).toMatchObject({ inherited_from: ['/t', '/t/a'], effective_models: [small] });
    expect(await nodeAt('/t/a/c')).toMatchObject({ restricted: true, effective_models: [] });
  });
});

describe('PUT /admin/users', () => {
  it('sets a policy as a whole, and returns the tree', async () => {
    const answer = await gateway.fetch(
      '/admin/users',
      put({ user_path: 'p/q/', allowed_models: ['llamacpp/*', 'llamacpp/', small], description: 'mine' }),
    );
    expect(answer.status).toBe(200);
    expect(answer.headers.get('etag')).toBe('"0"');
    const { users } = await json(answer);
    const time = expect.stringMatching(/^\d{4}-.*Z$/);
    const first = users.find((node: Answered) => node.user_path === '/p/q');
    expect(first).toEqual({
      user_path: '/p/q',
      allowed_models: ['llamacpp/', small],
      description: 'mine',
      configured: true,
      key_count: 0,
      inherited_from: [],
      restricted: true,
      effective_models: expect.arrayContaining([small, large, embed]),
      created_at: time,
      updated_at: first.created_at,
      revision: '0',
      managed: false,
    });
    const again = await gateway.fetch('/admin/users', put({ user_path: '/p/q', allowed_models: [] }));
    expect(again.headers.get('etag')).toBe('"1"');
    const changed = await nodeAt('/p/q');
    expect(changed).toMatchObject({ allowed_models: [], configured: true, restricted: false, revision: '1' });
    expect(changed.created_at).toBe(first.created_at);
    expect(changed).not.toHaveProperty('description');
  });

  it('changes nothing for an unchanged policy', async () => {
    for (const etag of ['"0"', '"0"']) {
      const answer = await gateway.fetch('/admin/users', put({ user_path: '/same', allowed_models: ['a'] }));
      expect(answer.headers.get('etag')).toBe(etag);
    }
  });

  it.each([
    ['nothing', '', null],
    ['no JSON', '{', null],
    ['no path', { allowed_models: [] }, 'user_path'],
    ['an empty path', { user_path: '', allowed_models: [] }, 'user_path'],
    ['a path with dots', { user_path: '/a/..', allowed_models: [] }, 'user_path'],
    ['a path with an empty segment', { user_path: '//a', allowed_models: [] }, 'user_path'],
    ['a path with spaces', { user_path: '/a b', allowed_models: [] }, 'user_path'],
    ['a path that is not a string', { user_path: {}, allowed_models: [] }, 'user_path'],
    ['no models', { user_path: '/a' }, 'allowed_models'],
    ['models that are null', { user_path: '/a', allowed_models: null }, 'allowed_models'],
    ['models that are no texts', { user_path: '/a', allowed_models: [1] }, 'allowed_models.0'],
    ['a model of an unknown provider', { user_path: '/a', allowed_models: ['nobody/'] }, 'allowed_models'],
    ['an unknown field', { user_path: '/a', allowed_models: [], models: [] }, 'models'],
  ])('refuses %s, and changes nothing', async (_what, body, param) => {
    const before = await nodes();
    const refused = await gateway.post('/admin/users', body, { method: 'PUT' });
    expect(await errorOf(refused, 400)).toMatchObject({ type: 'invalid_request_error', param });
    expect(await nodes()).toEqual(before);
  });

  it('is applied only at the revision in If-Match', async () => {
    const set = (model: string, revision: string) =>
      gateway.fetch('/admin/users', put({ user_path: '/match', allowed_models: [model] }, { 'if-match': revision }));
    expect(await errorOf(await set('a', '"0"'), 409)).toMatchObject({ code: 'revision_mismatch' });
    await setPolicy(gateway, '/match', ['a']);
    expect((await set('b', '"0"')).status).toBe(200);
    expect(await errorOf(await set('c', '"0"'), 409)).toMatchObject({
      code: 'revision_mismatch',
      message: expect.stringContaining('revision 1'),
    });
    expect((await remove('/match', { 'if-match': '"0"' })).status).toBe(409);
    expect((await remove('/match', { 'if-match': '"1"' })).status).toBe(200);
  });
});

describe('DELETE /admin/users', () => {
  it('removes the policy of one path, and returns the tree', async () => {
    await setPolicy(gateway, '/gone', ['a']);
    await setPolicy(gateway, '/gone/below', ['b']);
    const { users } = await json(await remove('/gone'));
    const known = (path: string) => users.find((node: Answered) => node.user_path === path);
    expect(known('/gone')).toMatchObject({ configured: false, restricted: false });
    expect(known('/gone/below')).toMatchObject({ configured: true, inherited_from: [] });
  });

  it('is 404 where no policy is set, and 400 without a path', async () => {
    expect(await errorOf(await remove('/never'), 404)).toMatchObject({ type: 'not_found_error' });
    expect(await errorOf(await gateway.fetch('/admin/users', { method: 'DELETE' }), 400)).toMatchObject({
      param: 'user_path',
    });
    expect(await errorOf(await remove('/a/../b'), 400)).toMatchObject({ code: 'invalid_user_path' });
  });
});

describe('policies of the configuration', () => {
  it('are applied, and in the tree as managed', async () => {
    expect(await nodeAt('/declared')).toEqual({
      user_path: '/declared',
      allowed_models: ['llamacpp/'],
      description: 'by the operator',
      configured: true,
      key_count: 0,
      inherited_from: [],
      restricted: true,
      effective_models: expect.arrayContaining([small]),
      managed: true,
    });
    expect(await nodeAt('/declared/open')).toMatchObject({ managed: true, inherited_from: ['/declared'] });
  });

  it('cannot be changed', async () => {
    const set = await gateway.fetch('/admin/users', put({ user_path: '/declared', allowed_models: [] }));
    expect(await errorOf(set, 409)).toMatchObject({ code: 'user_managed', param: 'user_path' });
    expect(await errorOf(await remove('/declared'), 409)).toMatchObject({ code: 'user_managed' });
    expect(await nodeAt('/declared')).toMatchObject({ managed: true, allowed_models: ['llamacpp/'] });
  });

  it.each([
    ['an unknown provider', [{ path: '/a', allowed_models: ['nobody/'] }], /'\/a'.*'nobody'/],
    ['a path with dots', [{ path: '/a/..', allowed_models: [] }], /'\.\.' segment/],
    [
      'one path twice',
      [
        { path: '/a', allowed_models: [] },
        { path: 'a', allowed_models: [] },
      ],
      /'\/a' has two declared policies/,
    ],
    ['no list', { path: '/a' }, /expected a list/],
    ['an unknown member', [{ path: '/a', allowed_models: [], models: [] }], /models/],
  ])('with %s end the start with a clear message', async (_what, users, message) => {
    await expect(startTestGateway({ env: { USERS: JSON.stringify(users) } })).rejects.toThrow(message);
  });
});
