/** Who is asking: a bearer token, compared in constant time. */
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Caller } from '../commands/exchange/client.ts';
import { refusals } from '../commands/refusal.ts';
import type { UserPath } from '../events/event.ts';
import { parseUserPath } from './user-path.ts';

export interface Authenticator {
  /** @throws Refusal (401, or 400 for a bad user path header) */
  authenticate(headers: IncomingHttpHeaders): Caller;
}

export function createAuthenticator(options: {
  /** Undefined: everything is open, which has to be asked for by name in the configuration. */
  masterKey: string | undefined;
  userPathHeader: string;
}): Authenticator {
  const { masterKey, userPathHeader } = options;
  const expected = masterKey === undefined ? undefined : Buffer.from(masterKey);
  const headerName = userPathHeader.toLowerCase();
  return {
    authenticate(headers) {
      const userPath = readUserPath(headers[headerName], userPathHeader);
      if (expected === undefined) return { actor: 'master', authMethod: 'no_key', userPath };
      const token = Buffer.from(readToken(headers));
      // How long the key is may be told by how long this takes, and nothing else.
      if (token.length !== expected.length || !timingSafeEqual(token, expected)) throw refusals.wrongKey();
      return { actor: 'master', authMethod: 'master_key', userPath };
    },
  };
}

function readToken(headers: IncomingHttpHeaders): string {
  const { authorization } = headers;
  if (authorization !== undefined) {
    const match = /^bearer +(\S+) *$/i.exec(authorization);
    if (match?.[1] === undefined) throw refusals.malformedAuthorization();
    return match[1];
  }
  const key = headers['x-api-key'];
  if (typeof key === 'string' && key !== '') return key;
  throw refusals.missingCredentials();
}

function readUserPath(value: string | string[] | undefined, header: string): UserPath | undefined {
  if (value === undefined || value === '') return undefined;
  if (typeof value !== 'string') throw refusals.invalidUserPath(header, 'is given more than once');
  return parseUserPath(value, header);
}
