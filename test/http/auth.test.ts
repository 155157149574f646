import { describe, expect, it } from 'vitest';
import { type KnownKey, mintKeySecret } from '../../src/commands/access/key-directory.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import type { UserPath } from '../../src/events/event.ts';
import { createAuthenticator } from '../../src/http/auth.ts';

const EXPIRY = 1_000_000;
let now = EXPIRY - 1;
let keysAsked = 0;
let refused: string[] = [];
const known = new Map<string, KnownKey>();
const authenticator = createAuthenticator({
  masterKey: 'the-master-key',
  userPathHeader: 'X-Gateway-User-Path',
  keys: {
    byHash(hash) {
      keysAsked += 1;
      return known.get(hash);
    },
    byId: (id) => [...known.values()].find((key) => key.id === id),
    imported: undefined,
  },
  now: () => now,
  refused: (reason, keyId) => refused.push(`${reason} ${keyId ?? ''}`.trim()),
});

function newKey(id: string, facts: Partial<KnownKey> = {}): string {
  const { value, secretHash } = mintKeySecret();
  known.set(secretHash, {
    id,
    userPath: undefined,
    dashboardAccess: false,
    allowedModels: [],
    labels: [],
    secretHash,
    previousSecret: undefined,
    userPathHeader: true,
    allowedCidrs: [],
    expiresAt: undefined,
    deactivatedAt: undefined,
    ...facts,
  });
  return value;
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** @param address of the client's connection */
function authenticate(headers: Record<string, string>, by = authenticator, address?: string) {
  return by.authenticate({ headers, socket: { remoteAddress: address } });
}

function refusalOf(headers: Record<string, string>, address?: string): Refusal {
  try {
    authenticate(headers, authenticator, address);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('it was let in');
}

describe('authentication', () => {
  it('accepts the master key as a bearer token, in any spelling of the scheme', () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      const caller = authenticate({ authorization: `${scheme} the-master-key` });
      expect(caller).toMatchObject({ actor: 'master', authMethod: 'master_key' });
      expect(caller.key).toBeUndefined();
    }
  });

  it('accepts it as x-api-key when there is no Authorization header', () => {
    expect(authenticate({ 'x-api-key': 'the-master-key' }).actor).toBe('master');
  });

  it.each([
    ['no credentials', {}, 'missing_credentials'],
    ['an empty x-api-key', { 'x-api-key': '' }, 'missing_credentials'],
    ['another scheme', { authorization: 'Basic dGhlLW1hc3Rlci1rZXk=' }, 'malformed_authorization'],
    ['a scheme without a token', { authorization: 'Bearer ' }, 'malformed_authorization'],
    ['a wrong token', { authorization: 'Bearer the-master-kez' }, 'invalid_api_key'],
    ['a prefix of the token', { authorization: 'Bearer the-master' }, 'invalid_api_key'],
    [
      'a wrong token beside a right x-api-key',
      { authorization: 'Bearer no', 'x-api-key': 'the-master-key' },
      'invalid_api_key',
    ],
  ])('refuses %s with 401', (_what, headers, code) => {
    expect(refusalOf(headers as Record<string, string>)).toMatchObject({
      status: 401,
      type: 'authentication_error',
      code,
    });
  });

  it('never repeats the token it refused', () => {
    expect(refusalOf({ authorization: 'Bearer sk-secret' }).message).not.toContain('sk-secret');
  });

  it.each([
    ['/team/alpha', '/team/alpha'],
    ['team/alpha', '/team/alpha'],
    ['/team/alpha/', '/team/alpha'],
    ['/', '/'],
  ])('reads the user path %s as %s', (given, expected) => {
    const headers = { authorization: 'Bearer the-master-key', 'x-gateway-user-path': given };
    expect(authenticate(headers).userPath).toBe(expected);
  });

  it.each(['/a//b', '/a/../b', '/./a', '/a b', '/a\u0007', `/${'x'.repeat(600)}`])(
    'refuses the user path %j with 400',
    (given) => {
      for (const key of ['the-master-key', newKey('a'), newKey('b', { userPath: '/team' as UserPath })]) {
        const refusal = refusalOf({ ...bearer(key), 'x-gateway-user-path': given });
        expect(refusal).toMatchObject({ status: 400, code: 'invalid_user_path' });
      }
    },
  );

  it('refuses a missing key before it checks the user path', () => {
    expect(refusalOf({ 'x-gateway-user-path': '/a//b' })).toMatchObject({ status: 401 });
  });
});

it('ignores the user path for every key where the header is switched off', () => {
  const key = newKey('any');
  const headerless = createAuthenticator({
    masterKey: 'the-master-key',
    userPathHeader: undefined,
    keys: { byHash: (hash) => known.get(hash), byId: () => undefined, imported: undefined },
  });
  for (const token of ['the-master-key', key]) {
    for (const path of ['/x', 'no//path']) {
      const headers = { ...bearer(token), 'x-gateway-user-path': path };
      expect(authenticate(headers, headerless).userPath).toBeUndefined();
    }
  }
});

describe('a managed key', () => {
  it('is recognised by its hash, in either header', () => {
    const key = newKey('one', { labels: ['blue'], allowedModels: ['p/'], dashboardAccess: true });
    for (const headers of [bearer(key), { 'x-api-key': key }]) {
      expect(authenticate(headers)).toMatchObject({
        actor: 'key:one',
        authMethod: 'api_key',
        key: { id: 'one', labels: ['blue'], allowedModels: ['p/'], dashboardAccess: true },
      });
    }
  });

  it('has a prefix and 43 characters that need no escaping', () => {
    expect(mintKeySecret().value).toMatch(/^sk_chy_[\w-]{43}$/);
    expect(mintKeySecret().value).not.toBe(mintKeySecret().value);
  });

  it('is hashed without its prefix', () => {
    const { value, secretHash, lastCharacters } = mintKeySecret();
    expect(secretHash).toMatch(/^[0-9a-f]{64}$/);
    expect(value.endsWith(lastCharacters)).toBe(true);
    expect(JSON.stringify([...known.values()])).not.toContain(value.slice('sk_chy_'.length));
  });

  it('yields the same caller object each time, so that a request allocates none', () => {
    const key = newKey('same');
    expect(authenticate(bearer(key))).toBe(authenticate(bearer(key)));
  });

  it('that is bound to a path is at that path, whatever the header says', () => {
    const key = newKey('bound', { userPath: '/team/a' as UserPath });
    for (const path of ['/', '/team', '/team/a/below', '/other']) {
      expect(authenticate({ ...bearer(key), 'x-gateway-user-path': path }).userPath).toBe('/team/a');
    }
  });

  it('without a path is at the path of the header', () => {
    const key = newKey('free');
    expect(authenticate(bearer(key)).userPath).toBeUndefined();
    expect(authenticate({ ...bearer(key), 'x-gateway-user-path': '/x' }).userPath).toBe('/x');
    expect(authenticate(bearer(key)).userPath).toBeUndefined();
  });

  it('with user_path_header false is at no path, whatever the header says', () => {
    const key = newKey('headless', { userPathHeader: false });
    for (const path of ['/x', '/', 'no//path']) {
      expect(authenticate({ ...bearer(key), 'x-gateway-user-path': path }).userPath).toBeUndefined();
    }
  });

  it('with networks is accepted from their addresses only, and from no unknown address', () => {
    const key = newKey('near', { allowedCidrs: ['10.0.0.0/8', '2001:db8::/32', '192.0.2.7/32'] });
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '2001:db8::1', '192.0.2.7']) {
      expect(authenticate(bearer(key), authenticator, address).actor).toBe('key:near');
    }
    for (const address of ['11.0.0.1', '::ffff:11.0.0.1', '2001:db9::1', '192.0.2.8', undefined]) {
      expect(refusalOf(bearer(key), address)).toMatchObject({ status: 403, code: 'network_not_allowed' });
    }
  });

  it('that is refused because of its address is the caller of the refusal', () => {
    const key = newKey('far', { allowedCidrs: ['10.0.0.0/8'] });
    const request = { headers: bearer(key), socket: { remoteAddress: '192.0.2.1' }, caller: undefined };
    expect(() => authenticator.authenticate(request)).toThrow(Refusal);
    expect(request.caller).toMatchObject({ actor: 'key:far' });
  });

  it('without a path sees what it created, whatever the header says', () => {
    const key = newKey('own');
    for (const headers of [bearer(key), { ...bearer(key), 'x-gateway-user-path': '/team' }]) {
      expect(authenticate(headers).visibility).toEqual({ of: 'own', actor: 'key:own' });
    }
  });

  it('is refused from its expiry on, and not before', () => {
    const key = newKey('old', { expiresAt: EXPIRY });
    now = EXPIRY - 1;
    expect(authenticate(bearer(key)).actor).toBe('key:old');
    now = EXPIRY;
    expect(refusalOf(bearer(key))).toMatchObject({ status: 401, code: 'invalid_api_key' });
  });

  it('has its previous secret accepted up to the millisecond in which the grace period ends, and then reported', () => {
    const before = mintKeySecret();
    const previousSecret = { secretHash: before.secretHash, validUntil: EXPIRY };
    const value = newKey('rotated', { previousSecret, userPath: '/a' as UserPath });
    const [key] = [...known.values()].filter(({ id }) => id === 'rotated');
    if (key !== undefined) known.set(before.secretHash, key);
    refused = [];
    now = EXPIRY - 1;
    for (const one of [value, before.value]) {
      expect(authenticate(bearer(one))).toMatchObject({ actor: 'key:rotated', userPath: '/a' });
    }
    now = EXPIRY;
    expect(authenticate(bearer(value)).actor).toBe('key:rotated');
    expect(refusalOf(bearer(before.value))).toMatchObject({ status: 401, code: 'invalid_api_key' });
    expect(refused).toEqual(['rotated rotated']);
  });

  it('is refused in the same words for every reason, and the reason is reported internally', () => {
    refused = [];
    now = EXPIRY;
    const unknown = `sk_chy_${'x'.repeat(43)}`;
    const expired = newKey('expired', { expiresAt: EXPIRY });
    const inactive = newKey('inactive', { deactivatedAt: 5, expiresAt: EXPIRY });
    const messages = [unknown, expired, inactive, 'nonsense'].map((key) => refusalOf(bearer(key)).message);
    expect(new Set(messages).size).toBe(1);
    expect(refused).toEqual(['unknown', 'expired expired', 'inactive inactive', 'unknown']);
  });

  it('with another prefix is not even looked up', () => {
    keysAsked = 0;
    refusalOf(bearer('sk_other_1234'));
    expect(keysAsked).toBe(0);
  });
});
