import { describe, expect, it } from 'vitest';
import { Refusal } from '../../src/commands/refusal.ts';
import { createAuthenticator } from '../../src/http/auth.ts';

const authenticator = createAuthenticator({ masterKey: 'the-master-key', userPathHeader: 'X-Gateway-User-Path' });

function refusalOf(headers: Record<string, string>): Refusal {
  try {
    authenticator.authenticate(headers);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('it was let in');
}

describe('authentication', () => {
  it('takes the master key as a bearer token, however the scheme is written', () => {
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      const caller = authenticator.authenticate({ authorization: `${scheme} the-master-key` });
      expect(caller).toMatchObject({ actor: 'master', authMethod: 'master_key' });
    }
  });

  it('takes it as x-api-key when there is no Authorization header', () => {
    expect(authenticator.authenticate({ 'x-api-key': 'the-master-key' }).actor).toBe('master');
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
    expect(authenticator.authenticate(headers).userPath).toBe(expected);
  });

  it.each(['/a//b', '/a/../b', '/./a', '/a b', '/a\u0007', `/${'x'.repeat(600)}`])(
    'refuses the user path %j with 400',
    (given) => {
      const refusal = refusalOf({ authorization: 'Bearer the-master-key', 'x-gateway-user-path': given });
      expect(refusal).toMatchObject({ status: 400, code: 'invalid_user_path' });
    },
  );
});
