/** What the reports on usage and on requests are asked for: days, a subtree, filters, a page. */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import type { UserPath } from '../../events/event.ts';
import { type Query, single } from '../query.ts';
import { parseUserPath } from '../user-path.ts';
import { type ReportRange, reportRange, timeZoneOf } from './date-range.ts';
import { pathInScope, scopeOf } from './mount.ts';

/** Whatever a filter is compared with. */
const MAX_TEXT = 1024;

/**
 * `start_date` and `end_date`, else `days`, in the zone of `X-Gateway-Timezone`. What is no number of days counts as not
 * given.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`
 */
export function rangeOf(request: FastifyRequest, now: number): ReportRange {
  const query = queryOf(request);
  const days = /^\d{1,9}$/.test(single(query['days']) ?? '') ? Number(single(query['days'])) : 0;
  return reportRange(
    {
      days: days > 0 ? days : undefined,
      start_date: single(query['start_date']),
      end_date: single(query['end_date']),
    },
    timeZoneOf(request),
    now,
  );
}

/**
 * The subtree that the report is of: the `user_path` asked for, or the caller's scope; undefined is everything, also
 * what has no user path.
 * @throws Refusal 400 `invalid_user_path`, 403 `user_path_out_of_scope`
 */
export function subtreeOf(request: FastifyRequest): UserPath | undefined {
  const written = textIn(queryOf(request), 'user_path');
  const given = written === undefined ? undefined : parseUserPath(written.replaceAll(/\/{2,}/g, '/'), 'user_path');
  const path = pathInScope(scopeOf(request), given);
  return path === '/' ? undefined : path;
}

/** A filter that is text; one that is empty counts as not given. @throws Refusal 400 */
export function textIn(query: Query, name: string): string | undefined {
  const text = single(query[name]);
  if (text === undefined || text.length <= MAX_TEXT) return text;
  throw refusals.invalidRequest(`'${name}' is longer than ${MAX_TEXT} characters.`, name);
}

/** @throws Refusal 400 for what is none of them */
export function oneOf<Word extends string>(query: Query, name: string, words: readonly Word[]): Word | undefined {
  const text = single(query[name]);
  const word = words.find((one) => one === text);
  if (text === undefined || word !== undefined) return word;
  throw refusals.invalidRequest(`'${name}' must be one of ${words.join(', ')}.`, name);
}

export interface Page {
  readonly limit: number;
  readonly offset: number;
}

export interface PageSizes {
  readonly usual: number;
  readonly most: number;
  /** Whether more than the most is cut to it, and not refused. */
  readonly capped?: boolean;
}

/** More is reached by narrower questions. */
const MOST_OFFSET = 10_000_000;

/** @throws Refusal 400 */
export function pageIn(query: Query, { usual, most, capped = false }: PageSizes): Page {
  const limit = wholeNumber(query, 'limit', { least: 1, most: capped ? Number.MAX_SAFE_INTEGER : most }) ?? usual;
  const offset = wholeNumber(query, 'offset', { least: 0, most: MOST_OFFSET }) ?? 0;
  return { limit: Math.min(limit, most), offset };
}

/** @throws Refusal 400 */
export function wholeNumber(
  query: Query,
  name: string,
  { least, most }: { readonly least: number; readonly most: number },
): number | undefined {
  const text = single(query[name]);
  if (text === undefined) return undefined;
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least && number <= most) return number;
  const upTo = most === Number.MAX_SAFE_INTEGER ? 'on' : `to ${most}`;
  throw refusals.invalidRequest(`'${name}' must be a whole number from ${least} ${upTo}.`, name);
}

export function queryOf(request: FastifyRequest): Query {
  return request.query as Query;
}
