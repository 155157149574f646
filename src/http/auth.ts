/** Authenticates a request: the master key, compared in constant time, or a managed key, found by its hash. */
import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import {
  type KeyDirectory,
  type KnownKey,
  secretHashOf,
  whySecretNotAccepted,
} from '../commands/access/key-directory.ts';
import type { RefusedBecause } from '../commands/access/refused-access.ts';
import type { Caller } from '../commands/model-request/model-request.ts';
import { refusals } from '../commands/refusal.ts';
import { sightOf } from '../commands/visibility.ts';
import type { UserPath } from '../events/event.ts';
import { createCrossSiteCheck } from './cross-site.ts';
import { optionalUserPath } from './user-path.ts';

export interface Authenticator {
  /**
   * @param refused receives the caller when its key is accepted and its user path header is not, so that the refusal
   *   can be recorded
   * @throws Refusal (401, 400 for a bad user path header, 403 for a request of a web page where no key is needed, or 503
   *   for a managed key when its state may have changed)
   */
  authenticate(headers: IncomingHttpHeaders, refused?: RefusedCaller): Caller;
  /** The same; undefined for `METRICS_KEY`, which only reads metrics. @throws Refusal as above */
  authenticateScraper(headers: IncomingHttpHeaders, refused?: RefusedCaller): Caller | undefined;
}

export interface RefusedCaller {
  caller: Caller | undefined;
}

export interface AuthenticatorOptions {
  /** Undefined: no key is needed, which the configuration must allow explicitly. */
  readonly masterKey: string | undefined;
  /** Reads only the metrics. */
  readonly metricsKey?: string | undefined;
  /** Host names of the gateway beside addresses and `localhost`. An open gateway refuses requests for other hosts. */
  readonly hostNames?: readonly string[];
  /** Origins of web pages that may use an open gateway. */
  readonly corsOrigins?: readonly string[];
  /** Undefined: no header sets a user path. */
  readonly userPathHeader: string | undefined;
  readonly keys: Pick<KeyDirectory, 'byHash'>;
  /** Whether `keys` has every change that was confirmed to an administrator; default: always. */
  readonly isCurrent?: () => boolean;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
  /** Called for each key that is not accepted. The client does not learn the reason. */
  refused?(reason: RefusedBecause, keyId?: string): void;
}

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { masterKey, keys, now = Date.now, isCurrent = () => true } = options;
  const checkSite = createCrossSiteCheck(options.hostNames ?? [], options.corsOrigins);
  const expected = masterKey === undefined ? undefined : Buffer.from(masterKey);
  const scraper = options.metricsKey === undefined ? undefined : Buffer.from(options.metricsKey);
  /** Caller of a key's newest secret without a path from a header. A change of the key makes a new key object. */
  const callers = new WeakMap<KnownKey, Caller>();

  const pathNamed = userPathReader(options.userPathHeader);

  function refuse(reason: RefusedBecause, keyId?: string): never {
    options.refused?.(reason, keyId);
    throw refusals.wrongKey();
  }

  function managedKey(token: string, headers: IncomingHttpHeaders, refused: RefusedCaller | undefined): Caller {
    if (!isCurrent()) throw refusals.notCurrent();
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
    // A malformed header is refused even where the key's own path is used instead.
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

/** Callers without a managed key and without a user path. */
const pathless = { master_key: pathlessCaller('master_key'), no_key: pathlessCaller('no_key') } as const;

function pathlessCaller(authMethod: 'master_key' | 'no_key'): Caller {
  return { actor: 'master', authMethod, sight: sightOf({ actor: 'master', userPath: undefined }) };
}

function keyCaller(key: KnownKey, secretHash: string, userPath: UserPath | undefined): Caller {
  const actor = `key:${key.id}` as const;
  const hasPreviousSecret = secretHash !== key.secretHash;
  const sight = sightOf({ actor, userPath, key });
  return { actor, authMethod: 'api_key', userPath, key, secretHash, hasPreviousSecret, sight };
}

/** The duration depends on the length of the expected key, and on nothing else of it. */
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

/** @returns a function that reads the user path from the header; it throws Refusal (400) for an invalid one */
function userPathReader(header: string | undefined): (headers: IncomingHttpHeaders) => UserPath | undefined {
  if (header === undefined) return () => undefined;
  const name = header.toLowerCase();
  return (headers) => {
    const value = headers[name];
    if (typeof value === 'object') throw refusals.invalidUserPath(header, 'is given more than once');
    return optionalUserPath(value, header);
  };
}
