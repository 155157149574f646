/** Keys of other gateways: `secret_sha256` of `POST /admin/auth-keys`. */
import { createHash, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { startTestGateway } from '../support/gateway.ts';
import { type ManagedKey, newKey, put, withKey } from '../support/managed-keys.ts';
import { errorOf, eventsUntil, json, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const secretOf = (prefix: string) => prefix + randomBytes(16).toString('base64url');

/** A key of another gateway, of which this one gets the hash. */
async function imported(body: object = {}, secret = secretOf('sk-')): Promise<ManagedKey> {
  const answer = await newHash(sha256(secret), body);
  expect(answer.status, await answer.clone().text()).toBe(201);
  return withKey(gateway, { ...(await json(answer)), value: secret });
}

function newHash(hash: string, body: object = {}, by: Pick<ManagedKey, 'fetch'> = gateway): Promise<Response> {
  return by.fetch('/admin/auth-keys', { json: { name: 'moved', secret_sha256: hash, ...body } });
}

const accepted = async (key: Pick<ManagedKey, 'fetch'>) => (await key.fetch('/v1/models')).status;
const acceptedText = (token: string) => accepted(withKey(gateway, { id: '', value: token }));

const post = (id: string, action: string, body?: unknown): Promise<Response> =>
  gateway.fetch(`/admin/auth-keys/${id}/${action}`, { method: 'POST', ...(body === undefined ? {} : { json: body }) });

describe('POST /admin/auth-keys with secret_sha256', () => {
  it('accepts the secret from then on, in either header, and shows neither it nor its hash', async () => {
    const secret = secretOf('sk-');
    expect(await acceptedText(secret)).toBe(401);
    const answer = await newHash(sha256(secret).toUpperCase(), { user_path: '/team', labels: ['moved'] });
    expect(answer.status).toBe(201);
    const text = await answer.clone().text();
    expect(text).not.toContain(sha256(secret));
    const created: Answered = await json(answer);
    expect(created.value).toBeUndefined();
    expect(created).toMatchObject({ user_path: '/team', labels: ['moved'], active: true });
    expect(created.redacted_value).toBe(`... (SHA-256 ...${sha256(secret).slice(-4)})`);
    expect(await acceptedText(secret)).toBe(200);
    expect((await fetch(`${gateway.url}/v1/models`, { headers: { 'x-api-key': secret } })).status).toBe(200);
    const listed = await (await gateway.fetch('/admin/auth-keys')).text();
    expect(listed).not.toContain(sha256(secret));
  });

  it('hashes only what follows secret_prefix, and accepts the secret with that prefix only', async () => {
    const secret = randomBytes(32).toString('base64url');
    const answer = await newHash(sha256(secret), { secret_prefix: 'sk_gom_' });
    expect(await json(answer)).toMatchObject({ redacted_value: expect.stringMatching(/^sk_gom_\.\.\. \(SHA-256/) });
    expect(await acceptedText(`sk_gom_${secret}`)).toBe(200);
    for (const other of [secret, `sk_chy_${secret}`, `sk-${secret}`, sha256(secret), `sk_gom_:${sha256(secret)}`]) {
      expect(await acceptedText(other)).toBe(401);
    }
  });

  it("does not accept another text for a whole secret's hash", async () => {
    const { value } = await imported();
    for (const other of [`sk_chy_${value}`, `sk_gom_${value}`, sha256(value), `:${sha256(value)}`]) {
      expect(await acceptedText(other)).toBe(401);
    }
  });

  it('accepts a hash of a secret with the prefix of this gateway, beside its own keys', async () => {
    const other = await imported({}, secretOf('sk_chy_'));
    const own = await newKey(gateway);
    expect([await accepted(other), await accepted(own)]).toEqual([200, 200]);
    expect(await acceptedText(secretOf('sk_chy_'))).toBe(401);
  });

  it('returns 409 for a hash that a key has or had, with the id of that key', async () => {
    const key = await imported();
    const hash = sha256(key.value);
    const refused = async () =>
      expect(await errorOf(await newHash(hash), 409)).toMatchObject({
        code: 'key_exists',
        param: 'secret_sha256',
        message: expect.stringContaining(key.id),
      });
    await refused();
    expect((await post(key.id, 'rotate', { grace_seconds: 0 })).status).toBe(200);
    await refused();
    expect((await post(key.id, 'deactivate')).status).toBe(204);
    await refused();
    expect(await accepted(key)).toBe(401);
  });

  describe('of one secret, with hashes that leave out different prefixes', () => {
    const hashes = (secret: string, longest: string) =>
      ['', longest.slice(0, 1), longest].map((prefix) => ({
        secret_sha256: sha256(secret.slice(prefix.length)),
        ...(prefix !== '' && { secret_prefix: prefix }),
      }));
    const create = async (body: object): Promise<string> => {
      const answer = await gateway.fetch('/admin/auth-keys', { json: { name: 'moved', ...body } });
      expect(answer.status, await answer.clone().text()).toBe(201);
      return (await json(answer)).id;
    };
    const orders = [[[0, 1, 2]], [[2, 1, 0]], [[1, 0, 2]]];
    it.each(orders)('is the key that was created first, whatever becomes of it: %j', async (order) => {
      // Their prefixes are known in another order than the keys come.
      const earlier = secretOf('v-');
      for (const body of hashes(earlier, 'v-')) await create(body);
      const secret = secretOf('v-');
      const bodies = order.flatMap((place) => hashes(secret, 'v-')[place] ?? []);
      const ids: string[] = [];
      for (const [place, body] of bodies.entries()) ids.push(await create({ ...body, user_path: `/owner${place}` }));
      const [first = '', ...later] = ids;
      expect(await acceptedText(secret)).toBe(200);
      for (const id of later) await post(id, 'deactivate');
      expect(await acceptedText(secret)).toBe(200);
      for (const id of later) await post(id, 'reactivate');
      await post(first, 'deactivate');
      expect(await acceptedText(secret)).toBe(401);
      const refused = await eventsUntil(gateway, 'types=access.refused', ({ data }) => data['keyId'] === first);
      expect(refused.length).toBeGreaterThan(0);
      await post(first, 'reactivate');
      expect(await acceptedText(secret)).toBe(200);
    });

    it('stays refused after a rotation and a deactivation of the key that was created first', async () => {
      const secret = secretOf('w-');
      const [whole = {}, , rest = {}] = hashes(secret, 'w-');
      const first = await create(rest);
      await post(first, 'rotate', { grace_seconds: 3600 });
      expect(await acceptedText(secret)).toBe(200);
      await post(first, 'deactivate');
      await create(whole);
      expect(await acceptedText(secret)).toBe(401);
    });

    it("is a key of this gateway's own before all others", async () => {
      const own = await newKey(gateway);
      await create({ secret_sha256: sha256(own.value) });
      await post(own.id, 'deactivate');
      expect(await accepted(own)).toBe(401);
    });
  });

  it('creates one key of two simultaneous requests with one hash', async () => {
    const hash = sha256(secretOf('sk-'));
    const statuses = (await Promise.all([newHash(hash), newHash(hash), newHash(hash)])).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([201, 409, 409]);
  });

  it('is for administrators of everything only', async () => {
    const global = await newKey(gateway, { dashboard_access: true });
    const scoped = await newKey(gateway, { dashboard_access: true, user_path: '/team' });
    const hash = sha256(secretOf('sk-'));
    expect(await errorOf(await newHash(hash, { user_path: '/team/a' }, scoped), 403)).toMatchObject({
      code: 'admin_scope_denied',
    });
    expect((await newHash(hash, {}, global)).status).toBe(201);
  });

  it('never gives more than the key of the administrator has', async () => {
    const global = await newKey(gateway, { dashboard_access: true, allowed_models: ['llamacpp/'] });
    const hash = sha256(secretOf('sk-'));
    expect((await newHash(hash, { allowed_models: ['/'] }, global)).status).toBe(403);
    expect((await newHash(hash, {}, global)).status).toBe(201);
  });

  it.each([
    [{ secret_sha256: 'abc' }, 'secret_sha256'],
    [{ secret_sha256: 'g'.repeat(64) }, 'secret_sha256'],
    [{ secret_sha256: sha256('x'), secret_prefix: 'a:b' }, 'secret_prefix'],
    [{ secret_sha256: sha256('x'), secret_prefix: 'x'.repeat(33) }, 'secret_prefix'],
    [{ secret_prefix: 'sk-' }, 'secret_sha256'],
  ])('returns 400 for %j', async (body, param) => {
    const answer = await gateway.fetch('/admin/auth-keys', { json: { name: 'wrong', ...body } });
    expect(await errorOf(answer, 400)).toMatchObject({ param });
  });
});

describe('a key of another gateway', () => {
  it('is rotated to a secret of this gateway; the old one is accepted until the grace period ends', async () => {
    const old = await imported();
    const answer = await json(await post(old.id, 'rotate', { grace_seconds: 3600 }));
    expect(answer).toMatchObject({ id: old.id, value: expect.stringMatching(/^sk_chy_/) });
    expect(answer.redacted_value).toBe(`sk_chy_...${answer.value.slice(-4)}`);
    const next = withKey(gateway, answer);
    expect([await accepted(old), await accepted(next)]).toEqual([200, 200]);
    await post(old.id, 'rotate', { grace_seconds: 0 });
    expect([await accepted(old), await accepted(next)]).toEqual([401, 401]);
    const events = await eventsUntil(gateway, 'types=access.refused', ({ data }) => data['keyId'] === old.id);
    expect(events.length).toBeGreaterThan(0);
  });

  it('expires, and is deactivated and reactivated, as every key', async () => {
    const key = await imported({ expires_at: '2199-01-01T00:00:00Z' });
    await post(key.id, 'deactivate');
    expect(await accepted(key)).toBe(401);
    await post(key.id, 'reactivate');
    expect(await accepted(key)).toBe(200);
    const soon = new Date(Date.now() + 300).toISOString();
    expect((await gateway.fetch(`/admin/auth-keys/${key.id}/expiry`, put({ expires_at: soon }))).status).toBe(200);
    await expect.poll(() => accepted(key)).toBe(401);
  });

  it.each([
    ['read models saved', () => {}],
    ['the log alone', (dataDir: string) => rmSync(join(dataDir, 'views.db'))],
  ])('is accepted after a restart, with %s', async (_, lose) => {
    const first = await startTestGateway();
    const secrets = [secretOf('sk-'), secretOf('')] as const;
    const bodies = [{}, { secret_prefix: 'sk_gom_' }];
    for (const [place, secret] of secrets.entries()) {
      const body = { name: 'moved', secret_sha256: sha256(secret), ...bodies[place] };
      const { id } = await json(await first.fetch('/admin/auth-keys', { json: body }));
      await first.fetch(`/admin/auth-keys/${id}/rotate`, { json: { grace_seconds: place * 3600 + 60 } });
    }
    const taken = secretOf('gone_');
    const hashes = [
      { secret_sha256: sha256(taken.slice(5)), secret_prefix: 'gone_' },
      { secret_sha256: sha256(taken) },
    ];
    for (const [place, body] of hashes.entries()) {
      const { id } = await json(await first.fetch('/admin/auth-keys', { json: { name: 'taken', ...body } }));
      const rotate = () => first.fetch(`/admin/auth-keys/${id}/rotate`, { json: { grace_seconds: 0 } });
      if (place === 0) for (const answer of [await rotate(), await rotate()]) expect(answer.status).toBe(200);
    }
    const { dataDir } = first;
    await first.gateway.stop('a restart');
    lose(dataDir);
    const second = await startTestGateway({ dataDir });
    const statuses = await Promise.all(
      [secrets[0], `sk_gom_${secrets[1]}`, secrets[1], taken].map(async (token) => {
        return (await fetch(`${second.url}/v1/models`, { headers: { authorization: `Bearer ${token}` } })).status;
      }),
    );
    await second.close();
    await first.simulated.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    expect(statuses).toEqual([200, 200, 401, 401]);
  });
});
