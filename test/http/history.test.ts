import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway();
const admin = administrator(gateway);
const MODEL = 'llamacpp/simulated-small';

describe('the history of a key', () => {
  it('has every change with its actor, before and after, and no secret', async () => {
    const boss = await admin.newKey({ dashboard_access: true });
    const { id, value } = await admin.newKey({ user_path: '/team', labels: ['x'] });
    await admin.change('PUT', `/admin/auth-keys/${id}/allowed-models`, { allowed_models: [MODEL] }, boss.value);
    await admin.change('POST', `/admin/auth-keys/${id}/deactivate`);

    const { entries, has_more, limit } = await admin.get(`/admin/history?subject=key:${id}`);
    expect({ has_more, limit }).toEqual({ has_more: false, limit: 50 });
    expect(entries).toMatchObject([
      { type: 'key.deactivated', actor: 'master', changed: ['active'], after: { active: false } },
      {
        type: 'key.allowed_models_changed',
        actor: `key:${boss.id}`,
        changed: ['allowed_models'],
        before: { allowed_models: [] },
        after: { allowed_models: [MODEL], labels: ['x'], user_path: '/team' },
        revision: '1',
        subject: `key:${id}`,
        request_id: expect.stringMatching(/./),
      },
      { type: 'key.created', before: null, after: { active: true, secret_hash: '***' } },
    ]);
    expect(JSON.stringify(entries)).not.toContain(value.slice(10, -4));
  });

  it('can be filtered by time and by positions', async () => {
    const { id } = await admin.newKey();
    const later = await admin.aMomentLater();
    await admin.change('PUT', `/admin/auth-keys/${id}/labels`, { labels: ['a'] });
    await admin.change('PUT', `/admin/auth-keys/${id}/labels`, { labels: ['b'] });
    const of = `/admin/history?subject=key:${id}`;
    const all = (await admin.get(of)).entries;
    expect(all).toHaveLength(3);
    expect((await admin.get(`${of}&start=${later}`)).entries).toEqual(all.slice(0, 2));
    expect((await admin.get(`${of}&end=${later}`)).entries).toEqual(all.slice(2));
    expect((await admin.get(`${of}&before=${all[0].position}`)).entries).toEqual(all.slice(1));
    expect(await admin.get(`${of}&after=${all[2].position}&limit=1`)).toMatchObject({
      entries: [all[1]],
      has_more: true,
    });
    expect(await admin.get(`${of}&limit=1`)).toEqual({ entries: [all[0]], limit: 1, has_more: true });
  });
});

describe('the history of all subjects', () => {
  it('has the changes of all subjects, the newest first', async () => {
    const { id } = await admin.newKey();
    await admin.change('PUT', '/admin/users', { user_path: '/everything', allowed_models: [MODEL] });
    const { entries, has_more } = await admin.get('/admin/history?limit=2');
    expect(entries).toMatchObject([{ subject: 'user:/everything' }, { subject: `key:${id}` }]);
    expect(has_more).toBe(true);
    const [, ...older] = (await admin.get('/admin/history?limit=3')).entries;
    expect((await admin.get(`/admin/history?limit=2&before=${entries[0].position}`)).entries).toEqual(older);
  });

  it('can be restricted to the changes of one actor', async () => {
    const boss = await admin.newKey({ dashboard_access: true });
    const of = { user_path: '/by-actor', allowed_models: [MODEL] };
    const before = await admin.newestChange();
    await admin.change('PUT', '/admin/users', of, boss.value);
    await admin.change('PUT', '/admin/users', { ...of, allowed_models: [] });
    await admin.change('PUT', '/admin/users', of, boss.value);
    const by = `/admin/history?actor=key:${boss.id}`;
    const { entries } = await admin.get(by);
    expect(entries).toHaveLength(2);
    expect(new Set(entries.map(({ actor }: Answered) => actor))).toEqual(new Set([`key:${boss.id}`]));
    expect(await admin.get(`${by}&limit=1`)).toEqual({ entries: entries.slice(0, 1), limit: 1, has_more: true });
    expect((await admin.get(`${by}&before=${entries[0].position}`)).entries).toEqual(entries.slice(1));
    expect((await admin.get(`${by}&after=${before}&limit=1`)).entries).toEqual(entries.slice(1));
    const ofMaster = (await admin.get('/admin/history?subject=user:/by-actor&actor=master')).entries;
    expect(ofMaster).toMatchObject([{ actor: 'master', after: { allowed_models: [] } }]);
    expect((await admin.get('/admin/history?actor=key:unknown')).entries).toEqual([]);
  });

  it('has decisions about read models', async () => {
    await admin.change('POST', '/admin/views/keys/rebuild', { reason: 'checked' });
    const [newest] = (await admin.get('/admin/history?limit=1')).entries;
    expect(newest).toMatchObject({
      ...{ type: 'view.rebuild_requested', subject: 'view:rebuilds', actor: 'master', before: null },
      after: { view: 'keys', reason: 'checked' },
    });
    expect((await admin.get('/admin/history?subject=view:rebuilds&limit=1')).entries).toEqual([newest]);
  });

  it('has no change from a refused request', async () => {
    const before = await admin.get('/admin/history?limit=1');
    const answer = await gateway.fetch('/admin/users', { method: 'PUT', json: { user_path: '/a/../b' } });
    expect(answer.status).toBe(400);
    expect(await admin.get('/admin/history?limit=1')).toEqual(before);
  });
});

describe('an administrator of a subtree', () => {
  it('reads the history of keys and paths in it', async () => {
    const scoped = await admin.newKey({ user_path: '/mine', dashboard_access: true });
    const key = await admin.newKey({ user_path: '/mine/deeper' });
    await admin.change('PUT', '/admin/users', { user_path: '/mine', allowed_models: [MODEL] });
    expect((await admin.get(`/admin/history?subject=key:${key.id}`, scoped.value)).entries).toHaveLength(1);
    expect((await admin.get('/admin/history?subject=user:mine/', scoped.value)).entries).toHaveLength(1);
  });

  it('learns nothing about other subtrees, not even that they exist', async () => {
    const scoped = await admin.newKey({ user_path: '/mine', dashboard_access: true });
    const foreign = await admin.newKey({ user_path: '/mine-too' });
    const global = await admin.newKey();
    const unknown = await admin.refused('/admin/history?subject=key:none', 404, scoped.value);
    for (const { id } of [foreign, global]) {
      const refusal = await admin.refused(`/admin/history?subject=key:${id}`, 404, scoped.value);
      expect(refusal.message.replace(id, 'none')).toBe(unknown.message);
    }
    for (const subject of ['user:/mine-too', 'user:/', 'budget:/', 'rate-limit:user_path:/other']) {
      const refusal = await admin.refused(`/admin/history?subject=${subject}`, 403, scoped.value);
      expect(refusal).toMatchObject({ code: 'user_path_out_of_scope', param: 'subject' });
    }
  });

  it('has no access to changes of the whole gateway', async () => {
    const scoped = await admin.newKey({ user_path: '/mine', dashboard_access: true });
    for (const query of [
      '',
      '?subject=provider:llamacpp',
      '?subject=settings:tagging',
      '?subject=virtual-model:x',
      '?subject=price:/',
      '?subject=credential:x',
      '?subject=audit:reads',
      '?subject=budget:label:x',
      '?subject=rate-limit:provider:llamacpp',
    ]) {
      expect(await admin.refused(`/admin/history${query}`, 403, scoped.value)).toMatchObject({
        code: 'admin_scope_denied',
      });
    }
  });
});

it('the history of a provider has its configuration', async () => {
  const { entries } = await admin.get('/admin/history?subject=provider:llamacpp');
  expect(entries).toContainEqual(
    expect.objectContaining({
      type: 'provider.configured',
      actor: 'system',
      after: expect.objectContaining({ type: 'llamacpp' }),
    }),
  );
});

it.each([
  ['subject=key', 'subject'],
  ['subject=response:1', 'subject'],
  ['subject=user:/a//b', 'subject'],
  ['limit=0', 'limit'],
  ['limit=201', 'limit'],
  ['limit=ten', 'limit'],
  ['before=then', 'before'],
  ['after=-1', 'after'],
  ['before=9999999999999999', 'before'],
  ['start=2026-01-01T24:00:00Z', 'start'],
  ['start=yesterday', 'start'],
  ['end=2026-01-01T10:00', 'end'],
  ['end=2026-02-30', 'end'],
])('refuses %s', async (query, param) => {
  expect(await admin.refused(`/admin/history?${query}`, 400)).toMatchObject({ param });
});

it('the history of a subject that never changed is empty', async () => {
  expect((await admin.refused('/admin/history?subject=user:/never', 404)).message).toContain('user:/never');
});
