/** Query parameters of the usage reports. */
import { refusals } from '../../commands/refusal.ts';
import { cacheModes, type UsageFilter } from '../../projections/analytics/usage-filter.ts';
import {
  parameterWithDefault,
  type QueryParameter,
  queryOfParameters,
  textParameter,
  type Values,
  wordParameter,
} from '../api/parameters.ts';
import { oneOf } from '../request-head.ts';
import { auditParameters, exactRange, hasInstants } from './audit-request.ts';
import { formatParameter } from './report-csv.ts';
import { type ReportContext, type RequestedReport, reportParameters, requestedReport } from './report-request.ts';
import { type Granularity, granularities, type Interval, intervals } from './usage-answers.ts';

/** The parameters of a report's range: days, or instants as in the audit log. */
export const rangeParameters = { ...reportParameters, from: auditParameters.from, to: auditParameters.to };

/** The parameters that restrict a report to a part of the usage. */
export const usageParameters = {
  ...rangeParameters,
  auth_key_id: textParameter('Id of a managed key'),
  model: textParameter('Id of a model at its provider'),
  provider: textParameter('Name or type of a provider'),
  label: textParameter('Label of the requests'),
  session_id: textParameter('Session of the requests'),
};

export const filteredUsage = {
  ...usageParameters,
  cache_mode: parameterWithDefault(
    wordParameter(cacheModes, "Whether usage answered from the gateway's caches is counted"),
    'uncached',
  ),
};

export const usageQuery = queryOfParameters({ ...filteredUsage, format: formatParameter });

export const intervalParameter = parameterWithDefault<Interval>(
  wordParameter(intervals, 'Length of a period'),
  'daily',
);

export const granularityParameter: QueryParameter<Granularity> = {
  description: 'Required. The answer has 60 seconds, 60 minutes, 24 hours or 30 days',
  schema: { type: 'string', enum: Object.keys(granularities) },
  read(query, name) {
    const words = Object.keys(granularities) as readonly Granularity[];
    const granularity = oneOf(query, name, words);
    if (granularity !== undefined) return granularity;
    throw refusals.invalidRequest(`'granularity' is needed: one of ${words.join(', ')}.`, 'granularity');
  },
};

export type UsageQuery = Values<typeof usageParameters>;

/** @throws Refusal 400, 403 */
export function filterOf(query: UsageQuery, context: ReportContext): UsageFilter {
  const { from, until, subtree } = requestedRange(query, context);
  const { model, provider, label, session_id: sessionId, auth_key_id: keyId } = query;
  return { from, until, subtree, keyId, model, provider, label, sessionId };
}

/** @throws Refusal 400 with `param`, 403 */
export function requestedRange(query: Values<typeof rangeParameters>, context: ReportContext): RequestedReport {
  const report = requestedReport(query, context);
  return hasInstants(query) ? { ...report, ...exactRange(query, context) } : report;
}
