/** The filter of request reports, as SQL conditions on the table `exchanges`. */
import type { UserPath } from '../../events/event.ts';
import {
  allOf,
  anyOf,
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

interface AuditRange {
  /** Milliseconds since the epoch; `until` is exclusive. */
  readonly from: number;
  readonly until: number;
  readonly subtree?: UserPath | undefined;
  readonly ids?: IdMatches | undefined;
}

type Texts = readonly string[];

const among = (column: string) => (values: Texts) => oneOfTexts(column, `${column}_in`, values);
const flag = (column: string) => (value: boolean) => [`${column} = {${column}: UInt8}`, { [column]: Number(value) }];
/** Any part of one of the columns, in upper or lower case. */
const containing =
  (name: string, columns: Texts = [name]) =>
  (part: string): Condition => [
    columns.map((column) => `${searchFunction(part)}(${column}, {${name}_part: String}) > 0`).join(' OR '),
    { [`${name}_part`]: part },
  ];

const searched = containing('search', [
  ...['request_id', 'auth_key_id', 'requested_model', 'provider_type', 'provider', 'method', 'path'],
  ...['user_path', 'error_type', 'error_code', 'error_message', 'session_id'],
]);

/** By the query parameter of the request reports: the condition of its value. Lists match any of their values. */
const conditionOf = {
  auth_key_id: among('auth_key_id'),
  session_id: (values: Texts) => ofSessions('', values),
  has_session: (value: boolean) => [`session_id ${value ? '!=' : '='} ''`, {}],
  label: (labels: Texts) => ['hasAny(labels, {labels: Array(String)})', { labels }],
  outcome: among('outcome'),
  status_class: (classes: readonly StatusClass[]) => [classes.map((one) => ofStatusClass[one]).join(' OR '), {}],
  status_code: (codes: readonly number[]) => ['status IN {status_codes: Array(UInt16)}', { status_codes: codes }],
  method: among('method'),
  endpoint: among('endpoint'),
  error_code: among('error_code'),
  /** Here and in the verdict, the empty text stands for requests without it. */
  cache_type: among('cache_type'),
  guardrail_verdict: among('guardrail_verdict'),
  /** Names of guardrails that changed something, or whose verdict was not `allow`. */
  guardrail: byGuardrail,
  guardrails_edited: flag('guardrails_edited'),
  min_duration_ms: (ms: number) => ['duration_ms >= {min_duration_ms: Float64}', { min_duration_ms: ms }],
  /** Id of the version of a workflow, or its scope. */
  workflow: (workflow: string) => [
    'workflow_id = {workflow: String} OR workflow_scope = {workflow: String}',
    { workflow },
  ],
  stream: flag('stream'),
  provider_name: among('provider'),
  provider_model: among('model'),
  requested_model_is: among('requested_model'),
  requested_model: containing('requested_model'),
  /** Name or type of the provider. */
  provider: containing('provider', ['provider', 'provider_type']),
  path: containing('path'),
  error_type: containing('error_type'),
  user_agent: containing('user_agent'),
  search: (part: string, range: AuditRange) => anyOf([searched(part), ofTrace(part, range)]),
} satisfies Readonly<Record<string, (value: never, range: AuditRange) => unknown>>;

type AuditParameter = keyof typeof conditionOf;

export type AuditFilter = AuditRange & {
  readonly [Name in AuditParameter]?: Parameters<(typeof conditionOf)[Name]>[0] | undefined;
};

/** Absent values and empty lists match everything. */
export function auditConditions(filter: AuditFilter): Conditions {
  const of = Object.entries(conditionOf) as [AuditParameter, (value: never, range: AuditRange) => Condition][];
  return allOf([
    between('at', filter.from, filter.until),
    inSubtree('user_path', filter.subtree),
    filter.ids && anyOf(idColumns.map((column) => oneOfTexts(column, `ids_${column}`, filter.ids?.[column]))),
    ...of.map(([name, condition]) => {
      const value = filter[name];
      const isNothing = value === undefined || (Array.isArray(value) && value.length === 0);
      return isNothing ? undefined : condition(value as never, filter);
    }),
  ]);
}

/** A W3C trace context (`00-<trace>-<span>-01`), or the trace id alone. */
const TRACE = /^(?:[0-9a-f]{2}-)?[0-9a-f]{32}(?:-[0-9a-f]{16}(?:-[0-9a-f]{2})?)?$/i;

/** The requests of a trace, which only the table of events has. */
function ofTrace(search: string, { from, until, subtree }: AuditRange): Condition | undefined {
  if (!TRACE.test(search)) return undefined;
  const { sql, parameters } = allOf([
    between('at', from, until, 'trace_'),
    inSubtree('user_path', subtree),
    ["category = 'exchange' AND position(traceparent, {trace: String}) > 0", { trace: search.toLowerCase() }],
  ]);
  return [`concat('exchange-', toString(id)) IN (SELECT stream FROM $db.events WHERE ${sql})`, parameters];
}

/** How long after its request the verdict of a guardrail on its answer is searched. */
const LONGEST_REQUEST_MS = 86_400_000;

function byGuardrail(guardrails: Texts, { from, until, subtree }: AuditRange): Condition {
  const { sql, parameters } = allOf([
    between('at', from, until + LONGEST_REQUEST_MS, 'verdicts_'),
    inSubtree('user_path', subtree),
    oneOfTexts('guardrail', 'guardrails', guardrails),
  ]);
  const acted = "verdict != 'allow' OR edited = 1";
  return [`id IN (SELECT exchange_id FROM $db.guardrail_verdicts WHERE ${sql} AND (${acted}))`, parameters];
}
