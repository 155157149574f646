/** The filter of request reports, as SQL conditions on the table `exchanges`. */
import type { UserPath } from '../../events/event.ts';
import {
  allOf,
  anyOf,
  atLeast,
  between,
  type Condition,
  type Conditions,
  inSubtree,
  ofSessions,
  oneOfTexts,
  searchFunction,
} from './conditions.ts';

/** `other` is every status outside these hundreds: 0 when none was sent, 1xx, 3xx. */
export const statusClasses = ['2xx', '4xx', '5xx', 'other'] as const;
export type StatusClass = (typeof statusClasses)[number];

/** SQL for requests of a class. */
export const ofStatusClass: Readonly<Record<StatusClass, string>> = {
  '2xx': 'status BETWEEN 200 AND 299',
  '4xx': 'status BETWEEN 400 AND 499',
  '5xx': 'status BETWEEN 500 AND 599',
  other: 'NOT (status BETWEEN 200 AND 299 OR status BETWEEN 400 AND 599)',
};

/** The columns that hold the ids by which requests are found. */
export const idColumns = ['id', 'request_id', 'response_id', 'session_id', 'auth_key_id'] as const;
export type IdColumn = (typeof idColumns)[number];

/** Requests that have one of these ids. */
export type IdMatches = Readonly<Partial<Record<IdColumn, readonly string[]>>>;

/** Lists match any of their values; an empty list matches everything. */
export interface AuditFilter {
  /** Milliseconds since the epoch; `until` is exclusive. */
  readonly from: number;
  readonly until: number;
  readonly subtree?: UserPath | undefined;
  readonly ids?: IdMatches | undefined;
  readonly authKeyIds?: readonly string[] | undefined;
  readonly sessionIds?: readonly string[] | undefined;
  /** Whether the request belongs to a session. */
  readonly hasSession?: boolean | undefined;
  readonly labels?: readonly string[] | undefined;
  readonly outcomes?: readonly string[] | undefined;
  readonly statusClasses?: readonly StatusClass[] | undefined;
  readonly statusCodes?: readonly number[] | undefined;
  readonly methods?: readonly string[] | undefined;
  readonly endpoints?: readonly string[] | undefined;
  readonly errorCodes?: readonly string[] | undefined;
  /** The empty text stands for requests that no cache answered. */
  readonly cacheTypes?: readonly string[] | undefined;
  /** The empty text stands for requests without guardrails. */
  readonly guardrailVerdicts?: readonly string[] | undefined;
  /** Names of guardrails that changed something, or whose verdict was not `allow`. */
  readonly guardrails?: readonly string[] | undefined;
  readonly guardrailsEdited?: boolean | undefined;
  readonly minDurationMs?: number | undefined;
  /** Id of the version of a workflow, or its scope. */
  readonly workflow?: string | undefined;
  readonly stream?: boolean | undefined;
  readonly providerNames?: readonly string[] | undefined;
  readonly providerModels?: readonly string[] | undefined;
  readonly requestedModels?: readonly string[] | undefined;
  /** These match any part, in upper or lower case. */
  readonly requestedModel?: string | undefined;
  /** Name or type of the provider. */
  readonly provider?: string | undefined;
  readonly path?: string | undefined;
  readonly errorType?: string | undefined;
  readonly userAgent?: string | undefined;
  readonly search?: string | undefined;
}

const searched = [
  ...['request_id', 'auth_key_id', 'requested_model', 'provider_type', 'provider', 'method', 'path'],
  ...['user_path', 'error_type', 'error_code', 'error_message', 'session_id'],
];

export function auditConditions(filter: AuditFilter): Conditions {
  const { stream, guardrailsEdited, statusClasses: classes = [] } = filter;
  return allOf([
    between('at', filter.from, filter.until),
    inSubtree('user_path', filter.subtree),
    filter.ids && idConditions(filter.ids),
    oneOfTexts('auth_key_id', 'auth_key_ids', filter.authKeyIds),
    ofSessions('', filter.sessionIds),
    filter.hasSession === undefined ? undefined : [`session_id ${filter.hasSession ? '!=' : '='} ''`, {}],
    anyLabel(filter.labels),
    oneOfTexts('outcome', 'outcomes', filter.outcomes),
    classes.length === 0 ? undefined : [classes.map((one) => ofStatusClass[one]).join(' OR '), {}],
    oneOfStatuses(filter.statusCodes),
    oneOfTexts('method', 'methods', filter.methods),
    oneOfTexts('endpoint', 'endpoints', filter.endpoints),
    oneOfTexts('error_code', 'error_codes', filter.errorCodes),
    oneOfTexts('cache_type', 'cache_types', filter.cacheTypes),
    oneOfTexts('guardrail_verdict', 'guardrail_verdicts', filter.guardrailVerdicts),
    byGuardrail(filter),
    flag('guardrails_edited', guardrailsEdited),
    atLeast('duration_ms', 'min_duration_ms', filter.minDurationMs),
    filter.workflow === undefined
      ? undefined
      : ['workflow_id = {workflow: String} OR workflow_scope = {workflow: String}', { workflow: filter.workflow }],
    flag('stream', stream),
    oneOfTexts('provider', 'provider_names', filter.providerNames),
    oneOfTexts('model', 'provider_models', filter.providerModels),
    oneOfTexts('requested_model', 'requested_models', filter.requestedModels),
    containing(['requested_model'], 'requested_model', filter.requestedModel),
    containing(['provider', 'provider_type'], 'provider', filter.provider),
    containing(['path'], 'path', filter.path),
    containing(['error_type'], 'error_type', filter.errorType),
    containing(['user_agent'], 'user_agent', filter.userAgent),
    filter.search === undefined ? undefined : anyOf([containing(searched, 'search', filter.search), ofTrace(filter)]),
  ]);
}

/** A W3C trace context (`00-<trace>-<span>-01`), or the trace id alone. */
const TRACE = /^(?:[0-9a-f]{2}-)?[0-9a-f]{32}(?:-[0-9a-f]{16}(?:-[0-9a-f]{2})?)?$/i;

/** The requests of a trace, which only the table of events has. */
function ofTrace({ from, until, subtree, search }: AuditFilter): Condition | undefined {
  if (search === undefined || !TRACE.test(search)) return undefined;
  const { sql, parameters } = allOf([
    between('at', from, until, 'trace_'),
    inSubtree('user_path', subtree),
    ["category = 'exchange' AND position(traceparent, {trace: String}) > 0", { trace: search.toLowerCase() }],
  ]);
  return [`concat('exchange-', toString(id)) IN (SELECT stream FROM $db.events WHERE ${sql})`, parameters];
}

function idConditions(ids: IdMatches): Condition {
  return anyOf(idColumns.map((column) => oneOfTexts(column, `ids_${column}`, ids[column])));
}

function oneOfStatuses(codes: readonly number[] | undefined): Condition | undefined {
  if (codes === undefined || codes.length === 0) return undefined;
  return ['status IN {status_codes: Array(UInt16)}', { status_codes: codes }];
}

function anyLabel(labels: readonly string[] | undefined): Condition | undefined {
  if (labels === undefined || labels.length === 0) return undefined;
  return ['hasAny(labels, {labels: Array(String)})', { labels }];
}

function flag(column: string, value: boolean | undefined): Condition | undefined {
  return value === undefined ? undefined : [`${column} = {${column}: UInt8}`, { [column]: Number(value) }];
}

/** How long after its request the verdict of a guardrail on its answer is searched. */
const LONGEST_REQUEST_MS = 86_400_000;

function byGuardrail({ from, until, subtree, guardrails = [] }: AuditFilter): Condition | undefined {
  if (guardrails.length === 0) return undefined;
  const { sql, parameters } = allOf([
    between('at', from, until + LONGEST_REQUEST_MS, 'verdicts_'),
    inSubtree('user_path', subtree),
    oneOfTexts('guardrail', 'guardrails', guardrails),
  ]);
  const acted = "verdict != 'allow' OR edited = 1";
  return [`id IN (SELECT exchange_id FROM $db.guardrail_verdicts WHERE ${sql} AND (${acted}))`, parameters];
}

function containing(columns: readonly string[], name: string, part: string | undefined): Condition | undefined {
  if (part === undefined) return undefined;
  const found = columns.map((column) => `${searchFunction(part)}(${column}, {${name}: String}) > 0`);
  return [found.join(' OR '), { [name]: part }];
}
