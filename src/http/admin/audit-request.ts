/** What the reports on requests are asked for, as it is written in their queries. */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import type { AuditCursor, AuditFilter } from '../../projections/analytics/audit-queries.ts';
import { type Query, single } from '../query.ts';
import { queryOf, rangeOf, subtreeOf, textIn, wholeNumber } from './report-request.ts';

/**
 * The filter of a request; an administrator of a subtree finds what is in it, and nothing else.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`, 403
 */
export function auditFilterOf(request: FastifyRequest, now: number): AuditFilter {
  const query = queryOf(request);
  const { from, until } = rangeOf(request, now);
  return {
    from,
    until,
    subtree: subtreeOf(request),
    sessionId: textIn(query, 'session_id'),
    method: textIn(query, 'method')?.toUpperCase(),
    statusCode: wholeNumber(query, 'status_code', { least: 0, most: 999 }),
    stream: booleanIn(query, 'stream'),
    requestedModel: textIn(query, 'requested_model') ?? textIn(query, 'model'),
    provider: textIn(query, 'provider'),
    path: textIn(query, 'path'),
    errorType: textIn(query, 'error_type'),
    search: textIn(query, 'search'),
  };
}

/** @throws Refusal 400 */
function booleanIn(query: Query, name: string): boolean | undefined {
  const written = single(query[name])?.toLowerCase();
  if (written === undefined) return undefined;
  if (written === 'true' || written === '1') return true;
  if (written === 'false' || written === '0') return false;
  throw refusals.invalidRequest(`'${name}' must be true or false.`, name);
}

/** Where the page begins, as the page before said it in `next_cursor`. @throws Refusal 400 */
export function cursorIn(query: Query): AuditCursor | undefined {
  const written = single(query['cursor']);
  if (written === undefined) return undefined;
  const found = /^(\d{1,18})-(\d{1,18})$/.exec(written);
  if (found?.[1] === undefined || found[2] === undefined) {
    throw refusals.invalidRequest("'cursor' must be the next_cursor of a page.", 'cursor');
  }
  return { at: found[1], position: found[2] };
}

export function cursorText({ at, position }: AuditCursor): string {
  return `${at}-${position}`;
}

/** The filter as it is put on record: what was asked, not what it came to. */
export function filterTold(request: FastifyRequest): Record<string, string> {
  return Object.fromEntries(
    Object.entries(queryOf(request)).flatMap(([name, value]) => {
      const written = single(value);
      return written === undefined ? [] : [[name, written.slice(0, 1024)]];
    }),
  );
}
