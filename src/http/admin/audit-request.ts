/** Query parameters of the request reports. */
import type { FastifyRequest } from 'fastify';
import type { AuditFilter } from '../../projections/analytics/audit-queries.ts';
import { reportRangeOf } from '../date-range.ts';
import { booleanIn, queryOf, single, textIn, wholeNumber } from '../query.ts';
import { reportSubtree } from './report-subtree.ts';

/**
 * The filter of a request; for an administrator of a subtree, it is restricted to that subtree.
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

/** The filter as it is recorded: the parameters of the request, not its result. */
export function filterInAudit(request: FastifyRequest): Record<string, string> {
  return Object.fromEntries(
    Object.entries(queryOf(request)).flatMap(([name, value]) => {
      const written = single(value);
      return written === undefined ? [] : [[name, written.slice(0, 1024)]];
    }),
  );
}
