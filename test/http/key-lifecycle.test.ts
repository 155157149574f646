/** Changes of a key after its creation: a new secret, another name, another expiry, deactivation and reactivation. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { type ManagedKey, newKey, put, withKey } from '../support/managed-keys.ts';
import { errorOf, eventsUntil, json, user, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';
import { listen } from './live-listener.ts';

const gateway = withGateway();
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';
const DAY = 86_400_000;
const inDays = (days: number) => new Date(Date.now() + days * DAY).toISOString();

async function rowOf(id: string, by: Pick<ManagedKey, 'fetch'> = gateway): Promise<Answered> {
  return (await json(await by.fetch('/admin/auth-keys'))).find((row: Answered) => row.id === id);
}

const rotate = (id: string, body: unknown, by: Pick<ManagedKey, 'fetch'> = gateway, headers = {}) =>
  by.fetch(`/admin/auth-keys/${id}/rotate`, { json: body, headers });

async function rotated(id: string, grace_seconds: number): Promise<ManagedKey> {
  const answer = await rotate(id, { grace_seconds });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return withKey(gateway, await json(answer));
}

const accepted = async (key: ManagedKey) => (await key.fetch('/v1/models')).status;

describe('POST /admin/auth-keys/{id}/rotate', () => {
  it('returns a new secret of the same key, and accepts both until the grace period ends', async () => {
    const old = await newKey(gateway, { user_path: '/team', labels: ['x'] });
    const answer = await rotate(old.id, { grace_seconds: 3600 });
    expect(answer.headers.get('etag')).toBe('"1"');
    const answered = await json(answer);
    expect(answered).toMatchObject({ id: old.id, name: 'a key', labels: ['x'], user_path: '/team', revision: '1' });
    expect(answered.value).toMatch(/^sk_chy_[\w-]{43}$/);
    expect(answered.value).not.toBe(old.value);
    expect(answered.redacted_value).toBe(`sk_chy_...${answered.value.slice(-4)}`);
    const grace = Date.parse(answered.previous_valid_until) - Date.parse(answered.updated_at);
    expect(Math.abs(grace - 3_600_000)).toBeLessThan(60_000);
    const { value: _, ...row } = answered;
    expect(await rowOf(old.id)).toMatchObject(row);
    const next = withKey(gateway, answered);
    expect([await accepted(old), await accepted(next)]).toEqual([200, 200]);
  });

  it('ends the previous secret at once without a grace period, and records further uses of it', async () => {
    const old = await newKey(gateway);
    const next = await rotated(old.id, 0);
    expect([await accepted(old), await accepted(next)]).toEqual([401, 200]);
    expect(await rowOf(old.id)).not.toHaveProperty('previous_valid_until');
    const events = await eventsUntil(gateway, 'types=access.refused', ({ data }) => data.keyId === old.id);
    expect(events.at(-1)?.data).toMatchObject({ reason: 'rotated', keyId: old.id });
  });

  it('ends the secret before the previous one', async () => {
    const first = await newKey(gateway);
    const second = await rotated(first.id, 3600);
    const third = await rotated(first.id, 3600);
    expect([await accepted(first), await accepted(second), await accepted(third)]).toEqual([401, 200, 200]);
  });

  it('keeps objects of the key visible, with both secrets', async () => {
    const old = await newKey(gateway);
    const made = await json(await old.fetch('/v1/responses', { json: { model, input: 'hi', max_output_tokens: 3 } }));
    const next = await rotated(old.id, 3600);
    for (const key of [old, next]) expect((await key.fetch(`/v1/responses/${made.id}`)).status).toBe(200);
    const stranger = await newKey(gateway);
    expect((await stranger.fetch(`/v1/responses/${made.id}`)).status).toBe(404);
  });

  it('ends a live tail that was opened with the replaced secret, and no other', async () => {
    const old = await newKey(gateway, { dashboard_access: true });
    const bearer = (key: ManagedKey) => ({ authorization: `Bearer ${key.value}` });
    const ofOld = await listen(gateway.url, {}, bearer(old));
    await ofOld.until('heartbeat');
    const last = await rotated(old.id, 3600);
    const ofNext = await listen(gateway.url, {}, bearer(last));
    await ofNext.until('heartbeat');
    const chat = { model, messages: user('hi'), max_tokens: 3 };
    const headers = { 'x-request-id': `after-${old.id}` };
    expect((await last.fetch('/v1/chat/completions', { json: chat, headers })).status).toBe(200);
    await ofOld.ended;
    await ofNext.until('audit.completed', `after-${old.id}`);
    expect(JSON.stringify(ofOld.events)).not.toContain(`after-${old.id}`);
    ofNext.leave();
  });

  it.each([
    ['/team', '/admin/auth-keys'],
    ['/team', '/admin/api/v1/auth-keys'],
    ['/team', '/admin/live/logs'],
    [undefined, '/admin/providers/status'],
    [undefined, '/metrics'],
  ])('refuses administration with the previous secret of a key of %s: %s', async (user_path, path) => {
    const old = await newKey(gateway, { user_path, dashboard_access: true });
    const next = await rotated(old.id, 3600);
    const refused = await old.fetch(path);
    if (refused.ok) await refused.body?.cancel();
    expect(await errorOf(refused, 403)).toMatchObject({ code: 'previous_secret_denied', type: 'permission_error' });
    const answer = await next.fetch(path);
    expect(answer.status).toBe(200);
    await answer.body?.cancel();
    for (const open of ['/v1/models', '/p/llamacpp/v1/models']) expect((await old.fetch(open)).status).toBe(200);
  });

  it('is refused with the previous secret, whose end does not change, and the new one stays', async () => {
    const old = await newKey(gateway, { dashboard_access: true });
    const next = await rotated(old.id, 3600);
    expect(await errorOf(await rotate(old.id, { grace_seconds: 0 }, old), 403)).toMatchObject({
      code: 'previous_secret_denied',
    });
    expect([await accepted(old), await accepted(next)]).toEqual([200, 200]);
  });

  it('survives a deactivation with one secret: the previous one stays ended when the key is reactivated', async () => {
    const old = await newKey(gateway);
    const next = await rotated(old.id, 3600);
    await admin.change('POST', `/admin/auth-keys/${old.id}/deactivate`);
    expect([await accepted(old), await accepted(next)]).toEqual([401, 401]);
    await admin.change('POST', `/admin/auth-keys/${old.id}/reactivate`);
    expect([await accepted(old), await accepted(next)]).toEqual([401, 200]);
  });

  it('is applied only at the revision in If-Match, so that a repeated request rotates once', async () => {
    const key = await newKey(gateway);
    const once = { 'if-match': '"0"' };
    expect((await rotate(key.id, { grace_seconds: 60 }, gateway, once)).status).toBe(200);
    expect(await errorOf(await rotate(key.id, { grace_seconds: 60 }, gateway, once), 409)).toMatchObject({
      code: 'revision_mismatch',
    });
    expect(await accepted(key)).toBe(200);
  });

  it.each([
    ['nothing', ''],
    ['no grace period', {}],
    ['a negative one', { grace_seconds: -1 }],
    ['a fraction', { grace_seconds: 1.5 }],
    ['more than 90 days', { grace_seconds: 90 * 86_400 + 1 }],
    ['a secret of its own', { grace_seconds: 1, value: 'sk_chy_mine' }],
  ])('is refused with %s', async (_what, body) => {
    const key = await newKey(gateway);
    expect(await errorOf(await rotate(key.id, body), 400)).toMatchObject({ type: 'invalid_request_error' });
    expect(await rowOf(key.id)).toMatchObject({ revision: '0' });
  });

  it('stores nothing from which a secret could be derived', async () => {
    const { id } = await newKey(gateway);
    const { value } = await rotated(id, 60);
    const files = readdirSync(gateway.dataDir, { recursive: true, encoding: 'utf8', withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)));
    expect(files.some((bytes) => bytes.includes('key.rotated'))).toBe(true);
    expect(files.some((bytes) => bytes.includes(value.slice('sk_chy_'.length)))).toBe(false);
  });

  it("returns no secret of a key with more permissions than the administrator's own", async () => {
    const own = { user_path: '/team', dashboard_access: true, allowed_models: [model] };
    const scoped = await newKey(gateway, own);
    const wide = await newKey(gateway, { user_path: '/team/a' });
    const narrow = await newKey(gateway, { user_path: '/team/a', allowed_models: [model] });
    expect(await errorOf(await rotate(wide.id, { grace_seconds: 60 }, scoped), 403)).toMatchObject({
      code: 'exceeds_own_access',
      param: 'allowed_models',
    });
    expect((await rotate(narrow.id, { grace_seconds: 60 }, scoped)).status).toBe(200);
    const other = await newKey(gateway, { user_path: '/other', allowed_models: [model] });
    expect(await errorOf(await rotate(other.id, { grace_seconds: 60 }, scoped), 404)).toBeDefined();
    expect((await rotate(scoped.id, { grace_seconds: 60 }, scoped)).status).toBe(200);
  });
});

describe('PUT /admin/auth-keys/{id}/name', () => {
  const rename = (id: string, body: object) => gateway.fetch(`/admin/auth-keys/${id}/name`, put(body));

  it('changes the name, and the description when one is given', async () => {
    const key = await newKey(gateway, { name: 'old', description: 'for CI' });
    const answer = await rename(key.id, { name: ' new ' });
    expect(answer.headers.get('etag')).toBe('"1"');
    expect(await json(answer)).toMatchObject({ name: 'new', description: 'for CI', revision: '1' });
    expect(await json(await rename(key.id, { name: 'new', description: null }))).not.toHaveProperty('description');
    expect(await rowOf(key.id)).toMatchObject({ name: 'new', revision: '2' });
    expect(await accepted(key)).toBe(200);
  });

  it.each([[{}], [{ name: '' }], [{ name: 'a\nb' }], [{ name: 1 }], [{ name: 'x', labels: [] }]])(
    'refuses %j',
    async (body) => {
      const key = await newKey(gateway);
      expect(await errorOf(await rename(key.id, body), 400)).toMatchObject({ type: 'invalid_request_error' });
    },
  );
});

describe('PUT /admin/auth-keys/{id}/expiry', () => {
  const expire = (id: string, body: object, by: Pick<ManagedKey, 'fetch'> = gateway) =>
    by.fetch(`/admin/auth-keys/${id}/expiry`, put(body));

  it('changes whether and when the key expires', async () => {
    const key = await newKey(gateway);
    const expires_at = inDays(3);
    expect(await json(await expire(key.id, { expires_at }))).toMatchObject({ expires_at, revision: '1' });
    expect(await json(await expire(key.id, { expires_at: null }))).not.toHaveProperty('expires_at');
  });

  it('reactivates an expired key', async () => {
    const key = await newKey(gateway, { expires_at: new Date(Date.now() + 1000).toISOString() });
    await expect.poll(() => accepted(key), { timeout: 10_000 }).toBe(401);
    expect(await json(await expire(key.id, { expires_at: inDays(1) }))).toMatchObject({ active: true });
    expect(await accepted(key)).toBe(200);
  });

  it('is not extended by a key beyond its own, nor by a key for itself', async () => {
    const expires_at = inDays(5);
    const scoped = await newKey(gateway, { user_path: '/team', dashboard_access: true, expires_at });
    const other = await newKey(gateway, { user_path: '/team/a', expires_at: inDays(1) });
    for (const later of [inDays(6), null]) {
      expect(await errorOf(await expire(other.id, { expires_at: later }, scoped), 403)).toMatchObject({
        code: 'exceeds_own_access',
      });
      expect(await errorOf(await expire(scoped.id, { expires_at: later }, scoped), 403)).toMatchObject({
        code: 'set_by_higher_administrator',
      });
    }
    expect((await expire(other.id, { expires_at: inDays(4) }, scoped)).status).toBe(200);
    expect((await expire(scoped.id, { expires_at: inDays(4) }, scoped)).status).toBe(200);
    expect((await expire(scoped.id, { expires_at }, scoped)).status).toBe(200);
  });

  it.each([[{}], [{ expires_at: '2020-01-01T00:00:00Z' }], [{ expires_at: 5 }], [{ expires_at: 'soon' }]])(
    'refuses %j',
    async (body) => {
      const key = await newKey(gateway);
      expect(await errorOf(await expire(key.id, body), 400)).toMatchObject({ param: 'expires_at' });
    },
  );
});

describe('POST /admin/auth-keys/{id}/reactivate', () => {
  const post = (path: string, by: Pick<ManagedKey, 'fetch'> = gateway) => by.fetch(path, { method: 'POST' });

  it('accepts a deactivated key again', async () => {
    const key = await newKey(gateway);
    await post(`/admin/auth-keys/${key.id}/deactivate`);
    expect(await accepted(key)).toBe(401);
    const answer = await post(`/admin/auth-keys/${key.id}/reactivate`);
    expect(answer.headers.get('etag')).toBe('"2"');
    const answered = await json(answer);
    expect(answered).toMatchObject({ enabled: true, active: true, revision: '2' });
    expect(answered).not.toHaveProperty('deactivated_at');
    expect(await accepted(key)).toBe(200);
    expect(await json(await post(`/admin/auth-keys/${key.id}/reactivate`))).toMatchObject({ revision: '2' });
  });

  it('is refused to an administrator of a subtree when a higher one deactivated the key', async () => {
    const scoped = await newKey(gateway, { user_path: '/team', dashboard_access: true });
    const key = await newKey(gateway, { user_path: '/team/a' });
    await post(`/admin/auth-keys/${key.id}/deactivate`, scoped);
    expect((await post(`/admin/auth-keys/${key.id}/reactivate`, scoped)).status).toBe(200);
    await post(`/admin/auth-keys/${key.id}/deactivate`);
    expect(await errorOf(await post(`/admin/auth-keys/${key.id}/reactivate`, scoped), 403)).toMatchObject({
      code: 'set_by_higher_administrator',
    });
    expect((await post(`/admin/auth-keys/${key.id}/reactivate`)).status).toBe(200);
  });
});

describe('the history of such changes', () => {
  let key: ManagedKey;
  let boss: ManagedKey;
  let before: string;
  beforeAll(async () => {
    boss = await newKey(gateway, { dashboard_access: true });
    key = await newKey(gateway, { name: 'first' });
    before = (await admin.get('/admin/history?limit=1')).entries[0].position;
    const change = (method: 'PUT' | 'POST', path: string, body?: object) =>
      admin.change(method, `/admin/auth-keys/${key.id}/${path}`, body, boss.value);
    await change('PUT', 'name', { name: 'second', description: 'new' });
    await change('PUT', 'expiry', { expires_at: '2199-01-01T00:00:00Z' });
    await change('POST', 'rotate', { grace_seconds: 3600 });
    await change('POST', 'deactivate');
    await change('POST', 'reactivate');
  });

  it('has every change with its actor, before and after, and no secret', async () => {
    const { entries } = await admin.get(`/admin/history?subject=key:${key.id}`);
    const actor = `key:${boss.id}`;
    expect(entries).toMatchObject([
      { type: 'key.reactivated', actor, changed: ['active'], before: { active: false }, after: { active: true } },
      { type: 'key.deactivated', actor, changed: ['active'] },
      {
        type: 'key.rotated',
        actor,
        changed: ['last_characters', 'previous_valid_until', 'secret_hash'],
        before: { secret_hash: '***' },
        after: { secret_hash: '***' },
      },
      { type: 'key.expiry_changed', actor, changed: ['expires_at'] },
      {
        type: 'key.renamed',
        actor,
        changed: ['description', 'name'],
        before: { name: 'first' },
        after: { name: 'second', description: 'new' },
      },
      { type: 'key.created', actor: 'master' },
    ]);
  });

  it('is applied with as_of', async () => {
    const rows: Answered[] = await admin.get(`/admin/auth-keys?as_of=${before}`);
    const then = rows.find(({ id }) => id === key.id);
    expect(then).toMatchObject({ name: 'first', revision: '0', redacted_value: `sk_chy_...${key.value.slice(-4)}` });
    expect(then).not.toHaveProperty('expires_at');
    expect(await rowOf(key.id)).toMatchObject({ name: 'second', revision: '5', active: true });
  });
});
