/** Query parameters of the request reports. */
import type { AuditFilter } from '../../projections/analytics/audit-queries.ts';
import { booleanParameter, numberParameter, textParameter, type Values } from '../api/parameters.ts';
import { type ReportContext, reportParameters, requestedReport } from './report-request.ts';

/** The parameters that restrict a report to a part of the requests. */
export const auditParameters = {
  ...reportParameters,
  requested_model: textParameter('Part of the requested model, in any case'),
  model: textParameter('Older name of `requested_model`'),
  provider: textParameter('Part of the name or type of the provider'),
  method: textParameter('HTTP method, in any case'),
  path: textParameter('Part of path and query'),
  error_type: textParameter('Part of the type of the error'),
  status_code: numberParameter({ least: 0, most: 999 }, 'Status of the answer'),
  stream: booleanParameter('Whether the client requested a stream'),
  search: textParameter('Part of an id, model, provider, method, path, user path, error or session'),
};

export const sessionParameter = textParameter('Session of the requests');

export type AuditQuery = Values<typeof auditParameters> & { readonly session_id?: string | undefined };

/**
 * The filter of a request; for an administrator of a subtree, it is restricted to that subtree.
 * @throws Refusal 400 with `param`, 403
 */
export function auditFilterOf(query: AuditQuery, context: ReportContext): AuditFilter {
  const { from, until, subtree } = requestedReport(query, context);
  return {
    from,
    until,
    subtree,
    sessionId: query.session_id,
    method: query.method?.toUpperCase(),
    statusCode: query.status_code,
    stream: query.stream,
    requestedModel: query.requested_model ?? query.model,
    provider: query.provider,
    path: query.path,
    errorType: query.error_type,
    search: query.search,
  };
}

/** The filter as it is recorded: the parameters of the request, not its result. */
export function filterInAudit(query: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
}
