/** What the reports on requests are asked for, as it is written in their queries. */
import type { FastifyRequest } from 'fastify';
import type { AuditFilter } from '../../projections/analytics/audit-queries.ts';
import { reportRangeOf } from '../date-range.ts';
import { booleanIn, queryOf, single, textIn, wholeNumber } from '../query.ts';
import { reportSubtree } from './report-subtree.ts';

/**
 * The filter of a request; an administrator of a subtree finds what is in it, and nothing else.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`, 403
 */
export function auditFilterOf(request: FastifyRequest, now: number): AuditFilter {
  const query = queryOf(request);
  const { from, until } = reportRangeOf(request, now);
  return {
    from,
    until,
    subtree: reportSubtree(request),
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

/** The filter as it is put on record: what was asked, not what it came to. */
export function filterTold(request: FastifyRequest): Record<string, string> {
  return Object.fromEntries(
    Object.entries(queryOf(request)).flatMap(([name, value]) => {
      const written = single(value);
      return written === undefined ? [] : [[name, written.slice(0, 1024)]];
    }),
  );
}
