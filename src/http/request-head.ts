/**
 * What the gateway takes from the head of a request: its id, its labels and its session, the values of its query, and the
 * parts that may be recorded. Appends cannot be undone, so credentials are removed before.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { isCredentialHeader, isCredentialParameter } from '../commands/header-names.ts';
import type { CallerKey } from '../commands/model-request/model-request.ts';
import { refusals } from '../commands/refusal.ts';
import { checkedRules, type TaggingRule } from '../commands/tagging/tagging.ts';
import type { UserPath } from '../events/event.ts';

const ACCEPTED = /^[\x21-\x7e]{1,200}$/;

/** The client's `X-Request-ID` when it is valid, else a new one. The answer carries it in both cases. */
export function requestIdOf(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && ACCEPTED.test(given) ? given : randomUUID();
}

/** The URL without the base path; undefined for one that is not below it. */
export function urlWithout(basePath: string, url: string): string | undefined {
  if (!url.startsWith(basePath)) return undefined;
  const below = url.slice(basePath.length);
  if (below.startsWith('/')) return below;
  return below === '' || below.startsWith('?') ? `/${below}` : undefined;
}

/** The beginning of a query parameter, also in a query separated by semicolons, or after a `#`. */
const PARAMETER = /[?&;#]([^?&;#=]+)=/g;
const END_OF_VALUE = /[&#]/g;

const REDACTED = '[REDACTED]';

export function redactHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined) continue;
    // A value may be a URL, for example in `referer`.
    if (isCredentialHeader(name)) kept[name] = REDACTED;
    else kept[name] = redactUrl(typeof value === 'string' ? value : value.join(', '));
  }
  return kept;
}

/** The same URL with the values of credential parameters replaced. */
export function redactUrl(url: string): string {
  if (!url.includes('?') && !url.includes('#')) return url;
  let kept = '';
  let from = 0;
  for (const { 0: beginning, 1: name = '', index } of url.matchAll(PARAMETER)) {
    if (index < from || !isCredentialParameter(name)) continue;
    const valueAt = index + beginning.length;
    kept += url.slice(from, valueAt) + REDACTED;
    END_OF_VALUE.lastIndex = valueAt;
    from = END_OF_VALUE.exec(url)?.index ?? url.length;
  }
  return kept + url.slice(from);
}

// Labels of a request: those of its key, and those from its headers by the tagging rules, without duplicates. Without
// rules and key labels this costs two checks.

/** Labels beyond these limits are dropped; the request is not refused. */
const MAX_LABELS = 64;
const MAX_LABEL_LENGTH = 128;

export interface RequestTags {
  /** Undefined when there are none. */
  labelsOf(headers: IncomingHttpHeaders, key: CallerKey | undefined): readonly string[] | undefined;
  /** Whether a header is not forwarded to providers. */
  isRemoved(header: string): boolean;
}

export const noTags: RequestTags = { labelsOf: (_headers, key) => labelsOfKey(key), isRemoved: () => false };

/**
 * @param managed the rules of the configuration
 * @param set the rules that administrators set; a new array after every change
 * @throws Error for an invalid rule of the configuration
 */
export function createRequestTags(managed: readonly TaggingRule[], set: () => readonly TaggingRule[]): RequestTags {
  const refused = checkedRules(managed, new Set());
  if (refused !== undefined) throw new Error(`tagging.headers: ${refused.message}`);
  let seen = set();
  let rules = inForce(managed, seen);
  const current = (): readonly TaggingRule[] => {
    const now = set();
    if (now !== seen) {
      seen = now;
      rules = inForce(managed, seen);
    }
    return rules;
  };
  return {
    labelsOf(headers, key) {
      const now = current();
      if (now.length === 0) return labelsOfKey(key);
      let labels: Set<string> | undefined;
      for (const rule of now) {
        const value = headers[rule.header];
        if (value === undefined) continue;
        labels ??= new Set(key?.labels);
        addLabels(labels, typeof value === 'string' ? value : value.join(rule.delimiter), rule);
      }
      return labels === undefined || labels.size === 0 ? labelsOfKey(key) : [...labels];
    },
    isRemoved: (header) => current().some((rule) => rule.doNotPass && rule.header === header),
  };
}

/**
 * For the same header, a rule of the configuration wins. A rule may have been recorded before its header was known to
 * hold credentials: it creates no labels, and the header is not forwarded to providers in any case.
 */
function inForce(managed: readonly TaggingRule[], set: readonly TaggingRule[]): readonly TaggingRule[] {
  const own = set.filter(({ header }) => !isCredentialHeader(header));
  return [...managed, ...own.filter(({ header }) => !managed.some((rule) => rule.header === header))];
}

function labelsOfKey(key: CallerKey | undefined): readonly string[] | undefined {
  return key === undefined || key.labels.length === 0 ? undefined : key.labels;
}

function addLabels(labels: Set<string>, value: string, { prefix, delimiter }: TaggingRule): void {
  for (const part of value.split(delimiter)) {
    if (labels.size >= MAX_LABELS) return;
    const whole = part.trim();
    const label = (prefix !== '' && whole.startsWith(prefix) ? whole.slice(prefix.length) : whole).trim();
    if (label !== '' && label.length <= MAX_LABEL_LENGTH) labels.add(label);
  }
}

// Values of query parameters. A parameter that is given several times counts with its last value, an empty one as not
// given; white space is never trimmed. A wrong value is 400 `invalid_value` with the parameter's name as `param`.

/** The query of a request, as Fastify parses it. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

export function queryOf(request: Pick<FastifyRequest, 'query'>): Query {
  return request.query as Query;
}

/** The value of a parameter; of several, the last. An empty one counts as not given. */
export function single(value: Query[string]): string | undefined {
  const one = typeof value === 'object' ? value.at(-1) : value;
  return one === '' ? undefined : one;
}

/** Longest value of a text filter. */
const MAX_TEXT = 1024;

/** A filter that is text, of at most 1,024 characters. @throws Refusal 400 */
export function textIn(query: Query, name: string): string | undefined {
  const text = single(query[name]);
  if (text === undefined || text.length <= MAX_TEXT) return text;
  throw refusals.invalidRequest(`'${name}' is longer than ${MAX_TEXT} characters.`, name);
}

/** One of the words, in exactly this spelling. @throws Refusal 400 */
export function oneOf<Word extends string>(query: Query, name: string, words: readonly Word[]): Word | undefined {
  const text = single(query[name]);
  const word = words.find((one) => one === text);
  if (text === undefined || word !== undefined) return word;
  throw refusals.invalidRequest(`'${name}' must be one of ${words.join(', ')}.`, name);
}

/** `true` or `1`, `false` or `0`, in any case. @throws Refusal 400 */
export function booleanIn(query: Query, name: string): boolean | undefined {
  const text = single(query[name])?.toLowerCase();
  if (text === undefined) return undefined;
  if (text === 'true' || text === '1') return true;
  if (text === 'false' || text === '0') return false;
  throw refusals.invalidRequest(`'${name}' must be true or false.`, name);
}

/** Inclusive bounds. */
export interface WholeNumberRange {
  readonly least: number;
  readonly most: number;
}

/** Up to 16 ASCII digits and nothing else: no sign, exponent, fraction or space. @throws Refusal 400 */
export function wholeNumber(query: Query, name: string, { least, most }: WholeNumberRange): number | undefined {
  const text = single(query[name]);
  if (text === undefined) return undefined;
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  const upTo = most === Number.MAX_SAFE_INTEGER ? 'on' : `to ${most}`;
  throw refusals.invalidRequest(`'${name}' must be a whole number from ${least} ${upTo}.`, name);
}

/**
 * Called for an address with a zero byte, except of routes that are forwarded to a provider: ClickHouse reads a text only up to
 * such a byte.
 * @throws Refusal 400 for a parameter that contains one
 */
export function checkQuery({ query }: Pick<FastifyRequest, 'query'>): void {
  for (const [name, value] of Object.entries(query as Query)) {
    const texts = [name, ...[value].flat()];
    if (!texts.some((text) => text?.includes('\0'))) continue;
    const param = name.replaceAll('\0', '');
    throw refusals.invalidRequest(`'${param}' contains a zero byte.`, param);
  }
}

/**
 * The one parser of user paths: in headers, queries, bodies, address segments and the configuration.
 *
 * Accepted: segments of printable ASCII without spaces, separated by `/`; a leading and one trailing slash are
 * optional. At most 512 characters. Refused: an empty segment, `.` and `..`.
 * Everything else is 400 `invalid_user_path` with the name of the header, parameter or field as `param`.
 */
const MAX_USER_PATH_LENGTH = 512;

/**
 * The canonical form: `team/alpha`, `/team/alpha` and `/team/alpha/` become `/team/alpha`; an empty text becomes `/`.
 * @param name the header, parameter or field that holds it
 * @throws Refusal 400 `invalid_user_path`
 */
export function parseUserPath(value: string, name: string): UserPath {
  if (value.length > MAX_USER_PATH_LENGTH) {
    throw refusals.invalidUserPath(name, `is longer than ${MAX_USER_PATH_LENGTH} characters`);
  }
  const segments = value.split('/').slice(value.startsWith('/') ? 1 : 0);
  if (segments.at(-1) === '') segments.pop();
  for (const segment of segments) {
    if (segment === '') throw refusals.invalidUserPath(name, 'has an empty segment');
    if (segment === '.' || segment === '..') throw refusals.invalidUserPath(name, `has a '${segment}' segment`);
    if (/[^\x21-\x7e]/.test(segment)) throw refusals.invalidUserPath(name, 'has characters other than visible ASCII');
  }
  return `/${segments.join('/')}` as UserPath;
}

/** The same where a path is optional: an empty text counts as not given. @throws Refusal 400 `invalid_user_path` */
export function optionalUserPath(value: string | null | undefined, name: string): UserPath | undefined {
  return value === undefined || value === null || value === '' ? undefined : parseUserPath(value, name);
}

/**
 * The subtree to which `user_path` in a query restricts a report or the live tail. A filter names nothing that is
 * stored, so empty segments are dropped instead of refused: `//team//alpha` becomes `/team/alpha`.
 * @throws Refusal 400 `invalid_user_path`
 */
export function userPathFilter(query: Query): UserPath | undefined {
  const text = single(query['user_path']);
  return optionalUserPath(text?.replaceAll(/\/{2,}/g, '/'), 'user_path');
}
