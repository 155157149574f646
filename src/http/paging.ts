/**
 * The one parser of paging parameters: `limit`, `offset`, `order`, `after`, cursors and log positions.
 *
 * Two forms of refusal exist, both 400 with the parameter's name as `param`: lists of OpenAI's API refuse in OpenAI's
 * words and codes, all other lists with code `invalid_value`.
 */

import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import { refusals } from '../commands/refusal.ts';
import type { ItemPageQuery } from '../commands/responses/input-items.ts';
import { formatPosition, type Position, parsePosition } from '../events/event.ts';
import type { AuditCursor } from '../projections/analytics/audit-queries.ts';
import { type Query, single, wholeNumber } from './request-head.ts';

/** Rows of a page. */
export interface PageSizes {
  /** Without a limit in the query. */
  readonly usual: number;
  readonly most: number;
  /** Whether a larger limit is reduced to `most` instead of refused. */
  readonly capped?: boolean;
}

export interface OffsetPage {
  readonly limit: number;
  /** Rows before the page. */
  readonly offset: number;
}

/** Rows beyond it are reached with narrower filters. */
const MOST_OFFSET = 10_000_000;

/** `limit`: 1 to 16 digits, from 1 to the most. @throws Refusal 400 `invalid_value` */
export function limitIn(query: Query, { usual, most, capped = false }: PageSizes): number {
  const limit = wholeNumber(query, 'limit', { least: 1, most: capped ? Number.MAX_SAFE_INTEGER : most }) ?? usual;
  return Math.min(limit, most);
}

/** `limit` and `offset`, from 0 to ten million. @throws Refusal 400 `invalid_value` */
export function offsetPageIn(query: Query, sizes: PageSizes): OffsetPage {
  const limit = limitIn(query, sizes);
  return { limit, offset: wholeNumber(query, 'offset', { least: 0, most: MOST_OFFSET }) ?? 0 };
}

/**
 * `limit` of a list of OpenAI's API: digits with an optional sign, from 1 to the most.
 * @throws Refusal 400 `invalid_type`, `integer_above_max_value` or `integer_below_min_value`
 */
export function openAiLimitIn(query: Query, { usual, most }: Omit<PageSizes, 'capped'>): number {
  const given = single(query['limit']);
  if (given === undefined) return usual;
  const limit = Number(given);
  if (!/^[+-]?\d+$/.test(given) || !Number.isSafeInteger(limit)) {
    const message = `Invalid type for 'limit': expected an integer, but got '${given}' instead.`;
    throw refusals.invalidRequest(message, 'limit', 'invalid_type');
  }
  if (limit > most) throw outside('above maximum value', `<= ${most}`, limit, 'integer_above_max_value');
  if (limit < 1) throw outside('below minimum value', '>= 1', limit, 'integer_below_min_value');
  return limit;
}

function outside(what: string, expected: string, got: number, code: string) {
  const message = `Invalid 'limit': integer ${what}. Expected a value ${expected}, but got ${got} instead.`;
  return refusals.invalidRequest(message, 'limit', code);
}

/**
 * The page of a list of OpenAI's API: `limit` (20, from 1 to 100), `order` (`desc`) and `after`, the id of the entry
 * before the page.
 * @throws Refusal 400
 */
export function openAiPageIn(query: Query): ItemPageQuery {
  const limit = openAiLimitIn(query, { usual: 20, most: 100 });
  const order = single(query['order']) ?? 'desc';
  if (order !== 'asc' && order !== 'desc') {
    throw refusals.invalidRequest(`'order' must be 'asc' or 'desc', not '${order}'.`, 'order');
  }
  return { limit, order, after: single(query['after']) };
}

/**
 * `starting_after` of a replayed stream: the sequence number of an event, 1 to 15 digits. The parameter is also
 * forwarded to providers unchanged, so an empty or repeated one is refused.
 * @throws Refusal 400 `invalid_value`
 */
export function startingAfterIn({ starting_after: after }: Query): number | undefined {
  if (after === undefined) return undefined;
  if (typeof after === 'string' && /^\d{1,15}$/.test(after)) return Number(after);
  throw refusals.invalidRequest("'starting_after' must be an integer.", 'starting_after');
}

/**
 * A position in the log as in answers: 1 to 16 digits, padded or not, at most 2^53 − 1.
 * @returns undefined for anything else
 */
export function logPosition(text: string): Position | undefined {
  try {
    return formatPosition(parsePosition(text));
  } catch {
    return undefined;
  }
}

/** `before` or `after` of a list whose entries are at log positions. @throws Refusal 400 `invalid_value` */
export function entryPositionIn(query: Query, name: 'before' | 'after'): Position | undefined {
  const given = single(query[name]);
  if (given === undefined) return undefined;
  const position = logPosition(given);
  if (position === undefined) throw refusals.invalidRequest(`'${name}' must be the position of an entry.`, name);
  return position;
}

/** `cursor`: the `next_cursor` of the previous page, two numbers of 1 to 18 digits. @throws Refusal 400 */
export function auditCursorIn(query: Query): AuditCursor | undefined {
  const given = single(query['cursor']);
  if (given === undefined) return undefined;
  const [, at, position] = /^(\d{1,18})-(\d{1,18})$/.exec(given) ?? [];
  if (at === undefined || position === undefined) {
    throw refusals.invalidRequest("'cursor' must be the next_cursor of a page.", 'cursor');
  }
  return { at, position };
}

export function auditCursorText({ at, position }: AuditCursor): string {
  return `${at}-${position}`;
}

const PIECE_CHARACTERS = 64 * 1024;

/**
 * A JSON array of the rows, which are read one by one at the client's pace.
 * @param around the text before and after the array, when it is a member of an object
 */
export function sendRows(
  reply: FastifyReply,
  rows: Iterable<object> | AsyncIterable<object>,
  around = ['', ''],
): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(Readable.from(pieces(rows, around), { objectMode: false }));
}

async function* pieces(
  rows: Iterable<object> | AsyncIterable<object>,
  [before = '', behind = '']: readonly string[],
): AsyncGenerator<string> {
  let piece = `${before}[`;
  let separator = '';
  for await (const row of rows) {
    piece += separator + JSON.stringify(row);
    separator = ',';
    if (piece.length < PIECE_CHARACTERS) continue;
    yield piece;
    piece = '';
    await setImmediate();
  }
  yield `${piece}]${behind}`;
}
