/** Who is asking: the master key, compared in constant time, or a managed key, known by its hash. */
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { type KeyDirectory, type KnownKey, whySecretNotAccepted } from '../commands/access/key-directory.ts';
import { secretHashOf } from '../commands/access/key-secret.ts';
import type { RefusedBecause } from '../commands/access/refused-access.ts';
import type { Caller } from '../commands/model-request/caller.ts';
import { refusals } from '../commands/refusal.ts';
import { sightOf } from '../commands/visibility.ts';
import type { UserPath } from '../events/event.ts';
import { createCrossSiteCheck } from './cross-site.ts';
import { optionalUserPath } from './user-path.ts';

export interface Authenticator {
  /**
   * @param refused is given the caller whose key is accepted and whose user path header is not, so that the refusal can be
   *   recorded
   * @throws Refusal (401, 400 for a bad user path header, or 403 for what a web page sends where no key is needed)
   */
  authenticate(headers: IncomingHttpHeaders, refused?: RefusedCaller): Caller;
  /** The same; undefined for `METRICS_KEY`, which reads metrics and nothing else. @throws Refusal as above */
  authenticateScraper(headers: IncomingHttpHeaders, refused?: RefusedCaller): Caller | undefined;
}

export interface RefusedCaller {
  caller: Caller | undefined;
}

export interface AuthenticatorOptions {
  /** Undefined: everything is open, which has to be asked for by name in the configuration. */
  readonly masterKey: string | undefined;
  /** Reads the metrics and nothing else. */
  readonly metricsKey?: string | undefined;
  /** By which clients reach the gateway, beside addresses and `localhost`. Web pages of other hosts are refused when open. */
  readonly hostNames?: readonly string[];
  /** Origins of web pages that may use an open gateway. */
  readonly corsOrigins?: readonly string[];
  /** Undefined: no header names a user path, for nobody. */
  readonly userPathHeader: string | undefined;
  readonly keys: Pick<KeyDirectory, 'byHash'>;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
  /** Told of keys that were not accepted. The client is not told why. */
  refused?(reason: RefusedBecause, keyId?: string): void;
}

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { masterKey, keys, now = Date.now } = options;
  const checkSite = createCrossSiteCheck(options.hostNames ?? [], options.corsOrigins);
  const expected = masterKey === undefined ? undefined : Buffer.from(masterKey);
  const scraper = options.metricsKey === undefined ? undefined : Buffer.from(options.metricsKey);
  /** The caller that a key's newest secret makes, when its path says all: a key's object is another one after each change. */
  const callers = new WeakMap<KnownKey, Caller>();

  const pathNamed = userPathReader(options.userPathHeader);

  function refuse(reason: RefusedBecause, keyId?: string): never {
    options.refused?.(reason, keyId);
    throw refusals.wrongKey();
  }

  function managedKey(token: string, headers: IncomingHttpHeaders, refused: RefusedCaller | undefined): Caller {
    const hash = secretHashOf(token);
    const key = hash === undefined ? undefined : keys.byHash(hash);
    if (hash === undefined || key === undefined) return refuse('unknown');
    const why = whySecretNotAccepted(key, hash, now());
    if (why !== undefined) return refuse(why, why === 'unknown' ? undefined : key.id);
    return callerWith(key, hash, headers, refused);
  }

  function callerWith(
    key: KnownKey,
    hash: string,
    headers: IncomingHttpHeaders,
    refused: RefusedCaller | undefined,
  ): Caller {
    const own = ownCaller(key, hash);
    if (refused !== undefined) refused.caller = own;
    // A malformed header is told of, also where the key's own path takes its place.
    const named = key.userPathHeader ? pathNamed(headers) : undefined;
    return key.userPath === undefined && named !== undefined ? keyCaller(key, hash, named) : own;
  }

  function ownCaller(key: KnownKey, hash: string): Caller {
    if (hash !== key.secretHash) return keyCaller(key, hash, key.userPath);
    let caller = callers.get(key);
    if (caller === undefined) {
      caller = keyCaller(key, hash, key.userPath);
      callers.set(key, caller);
    }
    return caller;
  }

  function master(
    authMethod: 'master_key' | 'no_key',
    headers: IncomingHttpHeaders,
    refused: RefusedCaller | undefined,
  ): Caller {
    if (refused !== undefined) refused.caller = pathless[authMethod];
    const userPath = pathNamed(headers);
    return { actor: 'master', authMethod, userPath, sight: sightOf({ actor: 'master', userPath }) };
  }

  function authenticate(headers: IncomingHttpHeaders, refused?: RefusedCaller): Caller {
    if (expected === undefined) {
      checkSite(headers);
      return master('no_key', headers, refused);
    }
    const token = readToken(headers);
    if (!isSameToken(token, expected)) return managedKey(token, headers, refused);
    return master('master_key', headers, refused);
  }

  return {
    authenticate,
    authenticateScraper(headers, refused) {
      if (scraper !== undefined && hasToken(headers) && isSameToken(readToken(headers), scraper)) return undefined;
      return authenticate(headers, refused);
    },
  };
}

/** The callers without a key of their own, when they name no user path. */
const pathless = {
  master_key: pathlessCaller('master_key'),
  no_key: pathlessCaller('no_key'),
} as const;

function pathlessCaller(authMethod: 'master_key' | 'no_key'): Caller {
  return { actor: 'master', authMethod, sight: sightOf({ actor: 'master', userPath: undefined }) };
}

function keyCaller(key: KnownKey, secretHash: string, userPath: UserPath | undefined): Caller {
  const actor = `key:${key.id}` as const;
  const hasPreviousSecret = secretHash !== key.secretHash;
  const sight = sightOf({ actor, userPath, key });
  return { actor, authMethod: 'api_key', userPath, key, secretHash, hasPreviousSecret, sight };
}

/** How long the expected key is may be told by how long this takes, and nothing else. */
function isSameToken(token: string, expected: Buffer): boolean {
  const given = Buffer.from(token);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function hasToken({ authorization, 'x-api-key': key }: IncomingHttpHeaders): boolean {
  return authorization !== undefined || key !== undefined;
}

/** @throws Refusal (401) when there is none */
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

/** @returns what reads the user path that a request names; it throws a Refusal (400) for one that is none */
function userPathReader(header: string | undefined): (headers: IncomingHttpHeaders) => UserPath | undefined {
  if (header === undefined) return () => undefined;
  const name = header.toLowerCase();
  return (headers) => {
    const value = headers[name];
    if (typeof value === 'object') throw refusals.invalidUserPath(header, 'is given more than once');
    return optionalUserPath(value, header);
  };
}
