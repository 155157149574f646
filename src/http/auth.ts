/**
 * Authenticates a request: the master key, compared in constant time, or a managed key, found by its hash. And the class of
 * callers that each route declares.
 */

import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { FastifyContextConfig, RouteOptions } from 'fastify';
import {
  type KeyDirectory,
  type KnownKey,
  secretHashOf,
  whySecretNotAccepted,
} from '../commands/access/key-directory.ts';
import type { RefusedBecause } from '../commands/access/refused-access.ts';
import type { Caller } from '../commands/model-request/model-request.ts';
import { CLIENT_SECRET_PREFIX, type ClientSecret, masterHashOf } from '../commands/realtime/client-secret.ts';
import { refusals } from '../commands/refusal.ts';
import { visibilityOf } from '../commands/visibility.ts';
import type { EpochMs, UserPath } from '../events/event.ts';
import { contains } from '../network/networks.ts';
import { type ArrivedRequest, type Clients, peers } from './client-address.ts';
import { optionalUserPath } from './request-head.ts';

/**
 * Which callers may call a route. Every route declares its class in `config.access`; a gateway with a route that does
 * not declare one does not start.
 */
export type AccessClass =
  /** Without a key. */
  | 'public'
  /** `METRICS_KEY`, and keys with unrestricted visibility. */
  | 'metrics'
  /** Every accepted key. The key's visibility decides which objects exist for it. */
  | 'any-key'
  /** Every accepted key that may use the provider; routes that are not stateless, only keys with unrestricted visibility. */
  | 'passthrough'
  /** Keys that administer a subtree, of which they see and change only its content, or everything. */
  | 'scoped-admin'
  /** Keys that administer the whole gateway. */
  | 'global-admin';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: AccessClass;
    /** Whether client secrets are accepted in place of keys. */
    clientSecrets?: true;
  }
}

/** @throws Error for a route that does not declare its class, or one that its part of the API does not allow */
export function requireAccessClass({ method, url, config }: Pick<RouteOptions, 'method' | 'url' | 'config'>): void {
  const access = config?.access;
  const route = `${[method].flat().join(', ')} ${url}`;
  if (access === undefined) throw new Error(`${route} does not declare who may call it`);
  const isAdmin = access === 'scoped-admin' || access === 'global-admin';
  if (isAdmin !== url.startsWith('/admin/') && access !== 'public') {
    throw new Error(`${route} is declared as ${access}, which routes of its part of the API are not`);
  }
}

export interface Authenticator {
  /**
   * @param request receives the caller also when its key is accepted and its user path header or its address is not, so
   *   that the refusal can be recorded
   * @throws Refusal (401, 400 for a bad user path header, 403 for an address outside the networks of the key and for a
   *   request of a web page where no key is needed, or 503 for a managed key when its state may have changed)
   */
  authenticate(request: Authenticated): Caller;
  /** The same; undefined for `METRICS_KEY`, which only reads metrics. @throws Refusal as above */
  authenticateScraper(request: Authenticated): Caller | undefined;
}

interface Authenticated extends ArrivedRequest {
  caller?: Caller | undefined;
  readonly routeOptions?: { readonly config?: FastifyContextConfig };
}

interface AuthenticatorOptions {
  /** Undefined: no key is needed, which the configuration must allow explicitly. */
  readonly masterKey: string | undefined;
  /** Reads only the metrics. */
  readonly metricsKey?: string | undefined;
  /** Host names of the gateway beside addresses and `localhost`. An open gateway refuses requests for other hosts. */
  readonly hostNames?: readonly string[];
  /** Origins of web pages that may use an open gateway; read for each request. */
  readonly corsOrigins?: readonly string[];
  /** Undefined: no header sets a user path. */
  readonly userPathHeader: string | undefined;
  readonly keys: Pick<KeyDirectory, 'byHash' | 'byId' | 'imported'>;
  /** Default: the peers of the connections. */
  readonly clients?: Clients;
  /** Reads a client secret; undefined for a text that is none. Default: there are none. */
  readonly openClientSecret?: (text: string) => ClientSecret | undefined;
  /** Whether `keys` has every change that was confirmed to an administrator; default: always. */
  readonly isCurrent?: () => boolean;
  readonly now?: () => EpochMs;
  /** Called for each key that is not accepted. The client does not learn the reason. */
  refused?(reason: RefusedBecause, keyId?: string): void;
}

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { masterKey, keys, clients = peers, now = Date.now, isCurrent = () => true, openClientSecret } = options;
  const checkSite = createCrossSiteCheck(options.hostNames ?? [], () => options.corsOrigins);
  const expected = masterKey === undefined ? undefined : Buffer.from(masterKey);
  const scraper = options.metricsKey === undefined ? undefined : Buffer.from(options.metricsKey);
  /** Caller of a key's newest secret without a path from a header. A change of the key makes a new key object. */
  const callers = new WeakMap<KnownKey, Caller>();

  const pathNamed = userPathReader(options.userPathHeader);

  function refuse(reason: RefusedBecause, keyId?: string): never {
    options.refused?.(reason, keyId);
    throw refusals.wrongKey();
  }

  function managedKey(token: string, request: Authenticated): Caller {
    if (!isCurrent()) throw refusals.notCurrent();
    const hash = secretHashOf(token, keys);
    const key = hash === undefined ? undefined : keys.byHash(hash);
    if (hash === undefined || key === undefined) return refuse('unknown');
    const why = whySecretNotAccepted(key, hash, now());
    if (why !== undefined) return refuse(why, why === 'unknown' ? undefined : key.id);
    return callerWith(key, hash, request);
  }

  function callerWith(key: KnownKey, hash: string, request: Authenticated): Caller {
    const own = ownCaller(key, hash);
    request.caller = own;
    if (!isAcceptedFrom(key, clients, request)) throw refusals.networkNotAllowed(clients.addressOf(request));
    // A malformed header is refused even where the key's own path is used instead.
    const named = key.userPathHeader ? pathNamed(request.headers) : undefined;
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

  function master(authMethod: 'master_key' | 'no_key', request: Authenticated): Caller {
    request.caller = pathless[authMethod];
    const userPath = pathNamed(request.headers);
    if (userPath === undefined) return pathless[authMethod];
    return { actor: 'master', authMethod, userPath, visibility: visibilityOf({ actor: 'master', userPath }) };
  }

  /** The key that has created it is accepted now, and from this address; its path is that of the key, or the one at its creation. */
  function withClientSecret(token: string, request: Authenticated): Caller {
    if (request.routeOptions?.config?.clientSecrets !== true) throw refusals.clientSecretElsewhere();
    const secret = openClientSecret?.(token);
    if (secret === undefined) return refuse('unknown');
    const caller = creatorOf(secret, request);
    // Last, so that a session which has begun ends for the other reasons.
    if (now() >= secret.expiresAt) throw refusals.clientSecretExpired();
    return { ...caller, clientSecret: secret.id };
  }

  function creatorOf({ keyId, masterHash, secretHash, userPath }: ClientSecret, request: Authenticated): Caller {
    if (keyId === undefined) {
      const isOfMaster = masterHash === (masterKey === undefined ? undefined : masterHashOf(masterKey));
      if (!isOfMaster) return refuse('rotated');
      const caller = pathless[masterKey === undefined ? 'no_key' : 'master_key'];
      request.caller = caller;
      return userPath === undefined
        ? caller
        : { ...caller, userPath, visibility: visibilityOf({ actor: 'master', userPath }) };
    }
    if (!isCurrent()) throw refusals.notCurrent();
    const key = keys.byId(keyId);
    if (key === undefined) return refuse('unknown');
    const hash = secretHash ?? key.secretHash;
    const why = whySecretNotAccepted(key, hash, now());
    // Its secret was replaced twice, or without a time of grace.
    if (why !== undefined) return refuse(why === 'unknown' ? 'rotated' : why, key.id);
    request.caller = ownCaller(key, hash);
    if (!isAcceptedFrom(key, clients, request)) throw refusals.networkNotAllowed(clients.addressOf(request));
    return keyCaller(key, hash, key.userPath ?? userPath);
  }

  function authenticate(request: Authenticated): Caller {
    if (expected === undefined) {
      checkSite(clients.hostOf(request), request.headers);
      const { authorization = '' } = request.headers;
      const token = authorization.slice('Bearer '.length);
      return token.startsWith(CLIENT_SECRET_PREFIX) ? withClientSecret(token, request) : master('no_key', request);
    }
    const token = readToken(request.headers);
    if (token.startsWith(CLIENT_SECRET_PREFIX)) return withClientSecret(token, request);
    return isSameToken(token, expected) ? master('master_key', request) : managedKey(token, request);
  }

  return {
    authenticate,
    authenticateScraper(request) {
      const { headers } = request;
      if (scraper !== undefined && hasToken(headers) && isSameToken(readToken(headers), scraper)) return undefined;
      return authenticate(request);
    },
  };
}

/** Whether the key may be used from the address of the client. An unknown address is in no network. */
export function isAcceptedFrom(
  { allowedCidrs }: Pick<KnownKey, 'allowedCidrs'>,
  clients: Clients,
  request: ArrivedRequest,
) {
  return allowedCidrs.length === 0 || contains(allowedCidrs, clients.addressOf(request));
}

/** Callers without a managed key and without a user path. */
const pathless = { master_key: pathlessCaller('master_key'), no_key: pathlessCaller('no_key') } as const;

function pathlessCaller(authMethod: 'master_key' | 'no_key'): Caller {
  return { actor: 'master', authMethod, visibility: visibilityOf({ actor: 'master', userPath: undefined }) };
}

function keyCaller(key: KnownKey, secretHash: string, userPath: UserPath | undefined): Caller {
  const actor = `key:${key.id}` as const;
  const hasPreviousSecret = secretHash !== key.secretHash;
  const visibility = visibilityOf({ actor, userPath, key });
  return { actor, authMethod: 'api_key', userPath, key, secretHash, hasPreviousSecret, visibility };
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
    return value === undefined ? undefined : optionalUserPath(value, header);
  };
}

// Keeps web pages away from a gateway that needs no key. A browser on the same machine or network sends any request
// that a page triggers, and the page can also read the answers once its own name resolves to the gateway (DNS
// rebinding). Clients other than browsers send neither `Origin` nor `Sec-Fetch-Site` (Fetch Metadata Request Headers,
// W3C).

/**
 * Accepts a request when its `Host` is one of the gateway's own and no other site caused it. An address always counts
 * as own: a page cannot make an address resolve to another one. So does `localhost`.
 *
 * @param ownNames further host names of the gateway
 * @param allowedOrigins of web pages that may still use the gateway; `*` allows none here, where no key is needed
 * @returns a check that throws Refusal 403 `host_not_allowed` or `cross_site_refused`
 */
function createCrossSiteCheck(
  ownNames: readonly string[],
  allowedOrigins: () => readonly string[] | undefined,
): (host: string | undefined, headers: IncomingHttpHeaders) => void {
  const own = new Set(ownNames.map((name) => hostNameIn(name) ?? name));
  return (host, headers) => {
    const { origin } = headers;
    // Only HTTP/1.0 has no `Host`, and no browser uses it.
    if (host !== undefined && !isOwn(hostNameIn(host), own)) throw refusals.hostNotAllowed(host);
    if (origin !== undefined && origin !== '*' && allowedOrigins()?.includes(origin)) return;
    const site = headers['sec-fetch-site'];
    const isOwnSite = site === undefined || site === 'same-origin' || site === 'none';
    if (!isOwnSite || (origin !== undefined && !isOriginOf(host, origin))) throw refusals.crossSiteRefused();
  };
}

/** Origins are compared in the form that browsers send: scheme, host and, unless it is the default, port. */
export function isAllowedOrigin(origin: string, allowed: readonly string[]): boolean {
  return allowed.includes(origin) || allowed.includes('*');
}

function isOwn(name: string | undefined, own: ReadonlySet<string>): boolean {
  if (name === undefined) return false;
  return own.has(name) || name === 'localhost' || name.endsWith('.localhost') || isIP(name) !== 0;
}

/** In lower case, without port, brackets and the final dot; undefined for an invalid host. */
function hostNameIn(host: string): string | undefined {
  const url = urlOf('http:', host);
  return url?.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/** The scheme is not compared: it differs behind a proxy that terminates TLS, and one port serves one scheme. */
export function isOriginOf(host: string | undefined, origin: string): boolean {
  if (host === undefined || !URL.canParse(origin)) return false;
  const { protocol, host: originHost } = new URL(origin);
  return (protocol === 'http:' || protocol === 'https:') && urlOf(protocol, host)?.host === originHost;
}

function urlOf(protocol: string, host: string): URL | undefined {
  const isHost = !/[\s/?#@\\]/.test(host);
  const text = `${protocol}//${isIP(host) === 6 ? `[${host}]` : host}`;
  return isHost && URL.canParse(text) ? new URL(text) : undefined;
}
