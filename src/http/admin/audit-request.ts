/** Query parameters of the request reports. */
import { refusals } from '../../commands/refusal.ts';
import { type AuditFilter, statusClasses } from '../../projections/analytics/audit-filter.ts';
import {
  booleanParameter,
  numberParameter,
  numbersParameter,
  type QueryParameter,
  textParameter,
  textsParameter,
  type Values,
  wordsParameter,
} from '../api/parameters.ts';
import { instantOf, instantRange, type ReportRange, timeText } from '../dates.ts';
import { single } from '../request-head.ts';
import { type ReportContext, type RequestedReport, reportParameters, requestedReport } from './report-request.ts';

const instantParameter = (description: string): QueryParameter<number | undefined> => ({
  description: `${description}: a time with its zone, to the millisecond`,
  schema: { type: 'string', format: 'date-time' },
  read(query, name) {
    const text = single(query[name]);
    return text === undefined ? undefined : instantOf(text, name);
  },
});

/** In filters, `none` stands for requests without the value. */
const NONE = 'none';

/** The parameters that restrict a report to a part of the requests. */
export const auditParameters = {
  ...reportParameters,
  from: instantParameter('Begin of the range, instead of days. Default with `to`: thirty days before it'),
  to: instantParameter('End of the range, exclusive. Default with `from`: now'),
  id: textParameter(
    'Exact id of an exchange, a request, a response, an item, a session or a key. Finds requests at any time, unless ' +
      'the range is given with `from` or `to`',
  ),
  outcome: wordsParameter(['completed', 'failed', 'refused', 'disconnected'], 'Outcome'),
  status_class: wordsParameter(statusClasses, 'Class of the status of the answer'),
  status_code: numbersParameter({ least: 0, most: 999 }, 'Status of the answer'),
  error_code: textsParameter('Code of the error'),
  error_type: textParameter('Part of the type of the error'),
  auth_key_id: textsParameter('Id of the key'),
  session_id: textsParameter('Session of the requests'),
  has_session: booleanParameter('Whether the request belongs to a session'),
  label: textsParameter('Label of the request'),
  requested_model: textParameter('Part of the requested model, in any case'),
  model: textParameter('Older name of `requested_model`'),
  requested_model_is: textsParameter('Requested model'),
  provider: textParameter('Part of the name or type of the provider'),
  provider_name: textsParameter('Name of the provider'),
  provider_model: textsParameter("The provider's model id"),
  method: textsParameter('HTTP method, in any case'),
  endpoint: textsParameter('Path without its query'),
  path: textParameter('Part of path and query'),
  stream: booleanParameter('Whether the client requested a stream'),
  cache_type: wordsParameter(['exact', 'semantic', NONE], 'Kind of the cache that answered'),
  workflow: textParameter('Id of the version of the workflow, or its scope, such as `path:/team`'),
  guardrail: textsParameter('Name of a guardrail that changed something, or whose verdict was not `allow`'),
  guardrail_verdict: wordsParameter(
    ['block', 'failure', 'respond', 'warn', 'allow', NONE],
    'Strongest verdict of the guardrails',
  ),
  guardrails_edited: booleanParameter('Whether guardrails changed the request or the answer'),
  min_duration_ms: numberParameter({ least: 0, most: 86_400_000 }, 'Least duration in milliseconds'),
  user_agent: textParameter('Part of the user agent'),
  search: textParameter(
    'Part of an id, model, provider, method, path, user path, error or session; or a whole trace id or `traceparent`',
  ),
};

export type AuditQuery = Values<typeof auditParameters>;

export interface RequestedAudit extends RequestedReport {
  readonly filter: AuditFilter;
}

/**
 * The range and the filter of a request, without its `id`; for an administrator of a subtree, it is restricted to that
 * subtree.
 * @throws Refusal 400 with `param`, 403
 */
export function requestedAudit(query: AuditQuery, context: ReportContext): RequestedAudit {
  const report = requestedReport(query, context);
  const range = { ...report, ...(hasInstants(query) ? exactRange(query, context) : {}) };
  const { from, until, subtree } = range;
  const filter: AuditFilter = {
    from,
    until,
    subtree,
    outcomes: query.outcome,
    statusClasses: query.status_class,
    statusCodes: query.status_code,
    errorCodes: query.error_code,
    errorType: query.error_type,
    authKeyIds: query.auth_key_id,
    sessionIds: query.session_id,
    hasSession: query.has_session,
    labels: query.label,
    requestedModel: query.requested_model ?? query.model,
    requestedModels: query.requested_model_is,
    provider: query.provider,
    providerNames: query.provider_name,
    providerModels: query.provider_model,
    methods: query.method?.map((method) => method.toUpperCase()),
    endpoints: query.endpoint,
    path: query.path,
    stream: query.stream,
    cacheTypes: query.cache_type?.map(orEmpty),
    workflow: query.workflow,
    guardrails: query.guardrail,
    guardrailVerdicts: query.guardrail_verdict?.map(orEmpty),
    guardrailsEdited: query.guardrails_edited,
    minDurationMs: query.min_duration_ms,
    userAgent: query.user_agent,
    search: query.search,
  };
  return { ...range, filter };
}

/** The range of a request that has instants. @throws Refusal 400 with `param` */
export function exactRange(
  query: Pick<AuditQuery, 'from' | 'to' | 'start_date' | 'end_date'>,
  { timeZone, now }: Pick<ReportContext, 'timeZone' | 'now'>,
): ReportRange {
  if (query.start_date !== undefined || query.end_date !== undefined) {
    const param = query.from === undefined ? 'to' : 'from';
    throw refusals.invalidRequest(`Give either '${param}' or dates, not both.`, param);
  }
  return instantRange(query, timeZone, now);
}

/** Whether the request names its range itself. */
export function hasInstants({ from, to }: Pick<AuditQuery, 'from' | 'to'>): boolean {
  return from !== undefined || to !== undefined;
}

function orEmpty(word: string): string {
  return word === NONE ? '' : word;
}

/** The filter as it is recorded: the parameters of the request, not its result. */
export function filterInAudit({ from, to, ...query }: AuditQuery & object): Record<string, string> {
  const instants = { from: from && timeText(from), to: to && timeText(to) };
  return Object.fromEntries(
    Object.entries({ ...query, ...instants }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, String(value)]],
    ),
  );
}
