/**
 * What a request's headers say about the response cache: `Cache-Control` (RFC 9111 §5.2.1), and the gateway's own
 * `X-Cache-Control`, `X-Cache-Type`, `X-Cache-TTL` and `X-Cache-Semantic-Threshold`.
 */
import { refusals } from '../../refusal.ts';

export interface CacheDirectives {
  /** Whether the answer may come from the cache. */
  readonly reads: boolean;
  /** Whether the answer may be kept for later requests. */
  readonly stores: boolean;
  /** Older entries are not accepted. */
  readonly maxAgeSeconds?: number;
  /** Without an entry, the request fails instead of calling a provider. */
  readonly onlyIfCached: boolean;
  /** Whether an entry for the same request may answer. */
  readonly exact: boolean;
  /** Whether an entry for a similar request may answer. */
  readonly semantic: boolean;
  /** How long the answer is kept; at most the configured maximum. */
  readonly ttlSeconds?: number;
  /** Least similarity of a similar request: 0 to 1. */
  readonly threshold?: number;
}

const usual: CacheDirectives = { reads: true, stores: true, onlyIfCached: false, exact: true, semantic: true };

/**
 * The same object for all requests without such headers.
 * @param headers lower-case names
 * @throws Refusal 400 for a malformed header of the gateway's own. A malformed `Cache-Control` has no effect.
 */
export function cacheDirectives(
  headers: Readonly<Record<string, string>>,
  { maxTtlSeconds }: { readonly maxTtlSeconds: number },
): CacheDirectives {
  const standard = headers['cache-control'];
  const own = headers['x-cache-control'];
  const type = headers['x-cache-type'];
  const ttl = headers['x-cache-ttl'];
  const threshold = headers['x-cache-semantic-threshold'];
  if ((standard ?? own ?? type ?? ttl ?? threshold) === undefined) return usual;
  return {
    ...usual,
    ...(own === undefined ? standardControl(standard) : ownControl(own)),
    ...(type === undefined ? undefined : readType(type)),
    ...(ttl === undefined ? undefined : readTtl(ttl, maxTtlSeconds)),
    ...(threshold === undefined ? undefined : { threshold: readThreshold(threshold) }),
  };
}

type Control = Partial<Pick<CacheDirectives, 'reads' | 'stores' | 'maxAgeSeconds' | 'onlyIfCached'>>;

function standardControl(value: string | undefined): Control {
  return value === undefined ? {} : Object.assign({}, ...directivesIn(value).map(controlOf));
}

/** @throws Refusal 400 */
function ownControl(value: string): Control {
  const directives = directivesIn(value);
  const controls = directives.map(controlOf);
  if (directives.length === 0 || controls.includes(undefined)) {
    throw malformed('X-Cache-Control', 'no-cache, no-store, max-age=<seconds> or only-if-cached');
  }
  return Object.assign({}, ...controls);
}

/** Undefined for a directive that is malformed, or that the cache does not know. */
function controlOf(directive: string): Control | undefined {
  const [name = '', argument] = directive.split(/=(.*)/s);
  switch (name.trim().toLowerCase()) {
    case 'no-cache':
      return { reads: false };
    case 'no-store':
      return { reads: false, stores: false };
    case 'only-if-cached':
      return argument === undefined ? { onlyIfCached: true } : undefined;
    case 'max-age': {
      const seconds = secondsIn(/^\s*"(.*)"\s*$/.exec(argument ?? '')?.[1] ?? argument ?? '');
      return seconds === undefined ? undefined : { maxAgeSeconds: seconds };
    }
    default:
      return undefined;
  }
}

function directivesIn(value: string): string[] {
  return value
    .split(',')
    .map((directive) => directive.trim())
    .filter((directive) => directive !== '');
}

function readType(value: string): Pick<CacheDirectives, 'exact' | 'semantic'> {
  const type = value.trim().toLowerCase();
  if (type !== 'exact' && type !== 'semantic' && type !== 'both') {
    throw malformed('X-Cache-Type', 'exact, semantic or both');
  }
  return { exact: type !== 'semantic', semantic: type !== 'exact' };
}

function readTtl(value: string, maxTtlSeconds: number): Partial<CacheDirectives> {
  const seconds = secondsIn(value);
  if (seconds === undefined) throw malformed('X-Cache-TTL', 'a whole number of seconds');
  return seconds === 0 ? { stores: false } : { ttlSeconds: Math.min(seconds, maxTtlSeconds) };
}

function readThreshold(value: string): number {
  const text = value.trim();
  if (!/^(0?\.\d{1,17}|[01](\.\d{0,17})?)$/.test(text) || Number(text) > 1) {
    throw malformed('X-Cache-Semantic-Threshold', 'a number from 0 to 1');
  }
  return Number(text);
}

/** Seconds past 2^53 are as good as 2^53. Undefined for anything but digits. */
function secondsIn(text: string): number | undefined {
  const digits = text.trim();
  return /^\d{1,400}$/.test(digits) ? Math.min(Number(digits), Number.MAX_SAFE_INTEGER) : undefined;
}

function malformed(header: string, expected: string) {
  return refusals.invalidRequest(`The header '${header}' must be ${expected}.`, header);
}
