/** Query parameters of the request reports. */

import { scopedSession } from '../../../commands/model-request/model-request.ts';
import { refusals } from '../../../commands/refusal.ts';
import { isIndexable, responseOfItem } from '../../../commands/responses/input-items.ts';
import type { UserPath } from '../../../events/event.ts';
import type { Ask } from '../../../projections/analytics/analytics-db.ts';
import {
  type AuditFilter,
  type IdColumn,
  type IdMatches,
  statusClasses,
} from '../../../projections/analytics/audit-filter.ts';
import { type FoundById, findByIds, pathsOfRequests } from '../../../projections/analytics/audit-stats.ts';
import type { ItemIndex } from '../../../projections/responses.ts';
import {
  booleanParameter,
  numberParameter,
  numbersParameter,
  type QueryParameter,
  textParameter,
  textsParameter,
  type Values,
  wordsParameter,
} from '../../api/parameters.ts';
import { instantOf, instantRange, type ReportRange, rangeBetween, timeText } from '../../dates.ts';
import { single } from '../../request-head.ts';
import { type ReportContext, type RequestedReport, reportParameters, requestedReport } from '../reports/report-db.ts';

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

interface RequestedAudit extends RequestedReport {
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
    ...query,
    from,
    until,
    subtree,
    requested_model: query.requested_model ?? query.model,
    method: query.method?.map((method) => method.toUpperCase()),
    cache_type: query.cache_type?.map(orEmpty),
    guardrail_verdict: query.guardrail_verdict?.map(orEmpty),
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

/** What kind of id found requests. */
export const idKinds = ['exchange', 'request', 'response', 'item', 'session', 'key'] as const;
type IdKind = (typeof idKinds)[number];

interface AuditById extends RequestedAudit {
  /** Undefined without an `id` in the query. */
  readonly foundBy: readonly IdKind[] | undefined;
}

/**
 * The same with the requests of `id`, in the range of time in which they are.
 * @throws Refusal 503 when analytics does not answer
 */
export async function auditById(
  query: AuditQuery,
  requested: RequestedAudit,
  ask: Ask,
  items: ItemIndex,
): Promise<AuditById> {
  const { id } = query;
  if (id === undefined) return { ...requested, foundBy: undefined };
  const { subtree } = requested;
  const wanted = matchesOf(id, await requestsOfItem(id, items));
  const found = (await findByIds(ask, wanted, subtree)) ?? (await findSession(id, subtree, ask));
  // An id that finds nothing adds nothing to the answer: an item may be that of another subtree.
  if (found === undefined)
    return { ...requested, filter: { ...requested.filter, ids: matchesOf(id, {}) }, foundBy: [] };
  const range = hasInstants(query) ? requested : rangeBetween(found.from, found.until, requested.timeZone);
  const { from, until } = range;
  return {
    ...requested,
    ...range,
    filter: { ...requested.filter, from, until, ids: found.ids },
    foundBy: kindsOf(id, found.ids),
  };
}

/** Most user paths under which a session is searched. */
const MOST_PATHS = 2000;

/** A session by the id that the client sent: under a user path it is recorded as a digest of both. */
async function findSession(id: string, subtree: UserPath | undefined, ask: Ask): Promise<FoundById | undefined> {
  const paths = await pathsOfRequests(ask, subtree, MOST_PATHS);
  if (paths.length === 0) return undefined;
  return findByIds(ask, { session_id: paths.map((path) => scopedSession(id, path)) }, subtree);
}

/** @param ofItem the requests that stored the item with this id */
function matchesOf(id: string, ofItem: IdMatches): IdMatches {
  return {
    id: [id],
    request_id: [id, ...(ofItem.request_id ?? [])],
    response_id: [id, ...(ofItem.response_id ?? [])],
    session_id: [id],
    auth_key_id: [id],
  };
}

/** Most holders of an item that are searched. */
const MOST_HOLDERS = 20;

/** The requests that stored an item. */
async function requestsOfItem(id: string, items: ItemIndex): Promise<IdMatches> {
  const response = responseOfItem(id);
  if (response !== undefined) return { response_id: [response] };
  if (!isIndexable(id)) return {};
  const responses: string[] = [];
  const requests: string[] = [];
  for await (const { kind, id: holderId, requestId } of items.holdersOf(id)) {
    if (kind === 'response') responses.push(holderId);
    else if (requestId !== undefined) requests.push(requestId);
    if (responses.length + requests.length >= MOST_HOLDERS) break;
  }
  return { request_id: requests, response_id: responses };
}

const kindOfColumn: Readonly<Record<IdColumn, IdKind>> = {
  id: 'exchange',
  request_id: 'request',
  response_id: 'response',
  session_id: 'session',
  auth_key_id: 'key',
};

/** The kinds of the columns in which something was found. An item is found by its request or its response. */
function kindsOf(id: string, found: IdMatches): IdKind[] {
  const columns = Object.entries(found) as readonly (readonly [IdColumn, readonly string[]])[];
  const kinds = columns.map(([column, values]) => {
    const isOfItem = column !== 'session_id' && values.some((value) => value !== id);
    return isOfItem ? 'item' : kindOfColumn[column];
  });
  return [...new Set(kinds)];
}
