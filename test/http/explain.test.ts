import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { user, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway({
  env: { USERS: '[{"path": "/declared", "allowed_models": ["llamacpp/simulated-large"]}]' },
});
const admin = administrator(gateway);
const SMALL = 'llamacpp/simulated-small';
const LARGE = 'llamacpp/simulated-large';

async function requestStatus(value: string, model: string): Promise<number> {
  const headers = { authorization: `Bearer ${value}` };
  return (await gateway.post('/v1/chat/completions', { model, messages: user('Hi') }, { headers })).status;
}

describe('GET /admin/explain', () => {
  it('names every list that was evaluated, and the event that set it', async () => {
    await admin.change('PUT', '/admin/users', { user_path: '/why', allowed_models: ['llamacpp/'] });
    const key = await admin.newKey({ user_path: '/why/me', allowed_models: [LARGE] });
    const { allowed, resolved, steps, workflow, ...rest } = await admin.get(
      `/admin/explain?key=${key.id}&model=${SMALL}`,
    );
    expect(rest).toEqual({ model: SMALL, user_path: '/why/me', key: key.id, as_of: null });
    expect(allowed).toBe(false);
    expect(resolved).toEqual([{ selector: SMALL, through: [], allowed: false }]);
    expect(steps).toMatchObject([
      { check: 'key is accepted', subject: key.id, allowed: true, event: { type: 'key.created' } },
      { check: 'model policy', subject: 'default', allowed: true, source: 'default', event: null },
      { check: 'key', allowed: false, list: [LARGE], target: SMALL, event: { type: 'key.created', actor: 'master' } },
      { check: 'user path', subject: '/why', allowed: true, list: ['llamacpp/'], event: { type: 'user.policy_set' } },
    ]);
  });

  it('agrees with inference', async () => {
    const restricted = await admin.newKey({ allowed_models: [LARGE] });
    const free = await admin.newKey();
    for (const { id, value } of [restricted, free]) {
      for (const model of [SMALL, LARGE]) {
        const { allowed } = await admin.get(`/admin/explain?key=${id}&model=${model}`);
        expect(await requestStatus(value, model)).toBe(allowed ? 200 : 400);
      }
    }
  });

  it('explains a path without a key, and the master key without a path', async () => {
    await admin.change('PUT', '/admin/users', { user_path: '/path', allowed_models: [LARGE] });
    expect(await admin.get(`/admin/explain?user_path=/path/deep&model=${SMALL}`)).toMatchObject({
      allowed: false,
      user_path: '/path/deep',
      key: null,
    });
    expect(await admin.get(`/admin/explain?model=${SMALL}`)).toMatchObject({ allowed: true, user_path: null });
  });

  it('names the newest event that set a policy, or the configuration that declares it', async () => {
    const key = await admin.newKey();
    await admin.change('PUT', `/admin/auth-keys/${key.id}/allowed-models`, { allowed_models: [LARGE] });
    await admin.change('PUT', `/admin/auth-keys/${key.id}/labels`, { labels: ['x'] });
    const { steps } = await admin.get(`/admin/explain?key=${key.id}&model=${SMALL}&user_path=/declared`);
    expect(steps.find(({ check }: Answered) => check === 'key').event).toMatchObject({
      type: 'key.allowed_models_changed',
      revision: '1',
    });
    expect(steps.at(-1)).toMatchObject({ subject: '/declared', source: 'config', event: null, allowed: false });
  });

  it('accepts the name of a key for its id, unless several keys have it', async () => {
    const [key, one, other] = [
      await admin.newKey({ name: 'named once', user_path: '/named' }),
      await admin.newKey({ name: 'named twice' }),
      await admin.newKey({ name: 'named twice', user_path: '/named' }),
    ];
    const byId = await admin.get(`/admin/explain?key=${key.id}&model=${SMALL}`);
    expect(await admin.get(`/admin/explain?key=named%20once&model=${SMALL}`)).toEqual(byId);
    expect(byId).toMatchObject({ key: key.id, user_path: '/named' });
    const refused = await admin.refused(`/admin/explain?key=named%20twice&model=${SMALL}`, 400);
    expect(refused).toMatchObject({ param: 'key' });
    for (const { id } of [one, other]) expect(refused.message).toContain(id);
    expect(await admin.refused(`/admin/explain?key=named%20never&model=${SMALL}`, 404)).toBeDefined();
    // A name refers only to keys that the administrator sees.
    const scoped = await admin.newKey({ user_path: '/named', dashboard_access: true });
    expect(await admin.get(`/admin/explain?key=named%20twice&model=${SMALL}`, scoped.value)).toMatchObject({
      key: other.id,
    });
    expect(await admin.refused(`/admin/explain?key=${one.id}&model=${SMALL}`, 404, scoped.value)).toBeDefined();
  });

  it('says that a key is deactivated', async () => {
    const key = await admin.newKey();
    await admin.change('POST', `/admin/auth-keys/${key.id}/deactivate`);
    const { allowed, steps } = await admin.get(`/admin/explain?key=${key.id}&model=${SMALL}`);
    expect(allowed).toBe(false);
    expect(steps[0]).toMatchObject({ allowed: false, reason: 'inactive', event: { type: 'key.deactivated' } });
  });

  it('resolves virtual models, and returns who may use them and the policies of their targets', async () => {
    await admin.change('PUT', '/admin/virtual-models', {
      source: 'team-model',
      targets: [{ model: 'inner-model' }, { provider: 'llamacpp', model: 'simulated-large' }],
      strategy: 'failover',
      user_paths: ['/vm'],
    });
    await admin.change('PUT', '/admin/virtual-models', {
      source: 'inner-model',
      target_model: SMALL,
      user_paths: ['/vm/inner'],
    });
    await admin.change('PUT', '/admin/virtual-models', { source: LARGE, user_paths: ['/vm/large'] });
    const why = (path: string) => admin.get(`/admin/explain?model=team-model&user_path=${path}`);

    const inner = await why('/vm/inner');
    expect(inner.allowed).toBe(true);
    expect(inner.resolved).toEqual([
      { selector: SMALL, through: ['team-model', 'inner-model'], allowed: true },
      { selector: LARGE, through: ['team-model'], allowed: false },
    ]);
    expect(inner.steps).toContainEqual(
      expect.objectContaining({ check: 'virtual model', subject: 'inner-model', allowed: true, list: ['/vm/inner'] }),
    );
    const large = inner.steps.find(({ target, check }: Answered) => target === LARGE && check === 'model policy');
    expect(large).toMatchObject({ subject: LARGE, allowed: false, event: { type: 'virtual_model.saved' } });

    expect((await why('/vm/large')).resolved.map(({ allowed }: Answered) => allowed)).toEqual([false, true]);
    expect(await why('/vm')).toMatchObject({ allowed: false });
    expect(await why('/elsewhere')).toMatchObject({
      allowed: false,
      resolved: [{ allowed: false }, { allowed: false }],
    });

    const { value } = await admin.newKey({ user_path: '/vm/inner' });
    expect(await requestStatus(value, 'team-model')).toBe(200);
    const stranger = await admin.newKey({ user_path: '/elsewhere' });
    expect(await requestStatus(stranger.value, 'team-model')).toBe(400);
    for (const source of ['team-model', 'inner-model', LARGE]) {
      await admin.change('DELETE', '/admin/virtual-models', { source });
    }
  });

  it('answers for the moment in as_of', async () => {
    const key = await admin.newKey({ allowed_models: [SMALL] });
    const allowedThen = await admin.aMomentLater();
    await admin.change('PUT', `/admin/auth-keys/${key.id}/allowed-models`, { allowed_models: [LARGE] });
    await admin.change('POST', `/admin/auth-keys/${key.id}/deactivate`);
    const then = await admin.get(`/admin/explain?key=${key.id}&model=${SMALL}&as_of=${allowedThen}`);
    expect(then).toMatchObject({ allowed: true, as_of: { at: allowedThen } });
    expect(then.steps[0]).toMatchObject({ allowed: true, event: { type: 'key.created' } });
    expect((await admin.get(`/admin/explain?key=${key.id}&model=${SMALL}`)).allowed).toBe(false);
    expect(await admin.refused(`/admin/explain?key=${key.id}&model=${SMALL}&as_of=2020-01-01`, 404)).toBeDefined();
  });
});

describe('an administrator of a subtree', () => {
  it('gets answers for its subtree, by default for its root', async () => {
    const scoped = await admin.newKey({ user_path: '/sub', dashboard_access: true });
    const foreign = await admin.newKey({ user_path: '/other' });
    const of = (query: string) => `/admin/explain?model=${SMALL}${query}`;
    expect(await admin.get(of(''), scoped.value)).toMatchObject({ user_path: '/sub' });
    expect(await admin.get(of('&user_path=/sub/x'), scoped.value)).toMatchObject({ user_path: '/sub/x' });
    expect(await admin.refused(of('&user_path=/other'), 403, scoped.value)).toMatchObject({
      code: 'user_path_out_of_scope',
    });
    await admin.refused(of(`&key=${foreign.id}`), 404, scoped.value);
  });

  it('cannot distinguish virtual models of other user paths from missing ones', async () => {
    const scoped = await admin.newKey({ user_path: '/sub', dashboard_access: true });
    const save = (body: object) => admin.change('PUT', '/admin/virtual-models', body);
    const ofModel = (model: string) => `/admin/explain?model=${model}`;
    await save({ source: 'of-other', target_model: SMALL, user_paths: ['/other', '/sub-other'] });
    await save({ source: 'of-deeper', target_model: SMALL, user_paths: ['/other', '/sub/deeper'] });
    await save({ source: 'of-all', targets: [{ model: 'of-other' }, { model: LARGE }] });
    await save({ source: 'leads-to-other', target_model: 'of-other' });
    for (const model of ['of-other', 'leads-to-other', 'missing']) {
      const refused = await admin.refused(ofModel(model), 404, scoped.value);
      expect(refused).toMatchObject({ code: 'model_not_found', message: expect.stringContaining(model) });
      expect(refused.message.replace(model, '')).toBe(
        (await admin.refused(ofModel('other-missing'), 404, scoped.value)).message.replace('other-missing', ''),
      );
    }
    const visible = await admin.get(ofModel('of-all'), scoped.value);
    expect(visible).toMatchObject({ allowed: true, resolved: [{ selector: LARGE, through: ['of-all'] }] });
    expect(JSON.stringify(visible)).not.toContain('of-other');
    expect(JSON.stringify(visible)).not.toContain(SMALL);
    // A path below the scope may use it, so the administrator sees why its own path may not.
    const deeper = await admin.get(ofModel('of-deeper'), scoped.value);
    expect(deeper).toMatchObject({ allowed: false, resolved: [{ selector: SMALL, allowed: false }] });
    expect(deeper.steps[0]).toMatchObject({ subject: 'of-deeper', list: ['/sub/deeper'] });
    // An administrator of everything sees all of them.
    expect((await admin.get(`${ofModel('of-all')}&user_path=/sub`)).resolved).toHaveLength(2);
    for (const source of ['leads-to-other', 'of-all', 'of-deeper', 'of-other']) {
      await admin.change('DELETE', '/admin/virtual-models', { source });
    }
  });
});

it('GET /admin/explain refuses a missing model, an invalid path, an unknown key and an unknown model', async () => {
  expect(await admin.refused('/admin/explain', 400)).toMatchObject({ param: 'model' });
  expect(await admin.refused(`/admin/explain?model=${SMALL}&user_path=/a/../b`, 400)).toMatchObject({
    param: 'user_path',
  });
  await admin.refused(`/admin/explain?model=${SMALL}&key=none`, 404);
  expect(await admin.refused('/admin/explain?model=nobody/serves-it', 404)).toMatchObject({ code: 'model_not_found' });
});
