/** A row of `exchanges`: read from ClickHouse, or made of the events of one exchange, with equal content. */
import { idOf, parsePosition, type RecordedEvent } from '../../events/event.ts';
import type { VerdictRow } from '../verdicts.ts';
import type { Ask } from './analytics-db.ts';
import { allOf, between } from './conditions.ts';
import { type ExchangeEnd, type ExchangeFacts, ExchangeFold } from './exchange-fold.ts';
import { keyIdOrEmpty, type Retention, rowWriter } from './rows.ts';
import { tables } from './tables.ts';
import { type TsvRows, time } from './tsv.ts';

/** The verdicts of guardrails on requests, read from ClickHouse: equal to those in the events of the request. */
type StoredVerdict = Omit<VerdictRow, 'findings' | 'duration_ns'> & {
  readonly id: string;
  readonly findings: Readonly<Record<string, string | number>>;
  readonly duration_ns: string | number;
};

/** By the id of the exchange, in the order in which they ran. */
export async function verdictsOfRequests(
  ask: Ask,
  rows: readonly Pick<ExchangeRow, 'id' | 'at_us' | 'duration_ms' | 'guardrail_runs'>[],
): Promise<ReadonlyMap<string, readonly VerdictRow[]>> {
  const guarded = rows.filter(({ guardrail_runs }) => guardrail_runs > 0);
  if (guarded.length === 0) return new Map();
  const starts = guarded.map(({ at_us }) => Number(at_us) / 1000);
  const ends = guarded.map(({ at_us, duration_ms }) => Number(at_us) / 1000 + duration_ms);
  const { sql, parameters } = allOf([between('at', Math.min(...starts) - 1, Math.max(...ends) + AFTER_END_MS)]);
  const found = await ask<StoredVerdict>(
    `SELECT exchange_id AS id, guardrail, type, phase, attempt, step, verdict, code, message, error, fail_mode, edited,
      findings, duration_ns, decided
    FROM $db.guardrail_verdicts WHERE ${sql} AND exchange_id IN {ids: Array(String)} ORDER BY position, run`,
    { ...parameters, ids: guarded.map(({ id }) => id) },
  );
  const verdicts = new Map<string, VerdictRow[]>();
  for (const { id, findings, duration_ns, ...verdict } of found) {
    const counts = Object.fromEntries(Object.entries(findings).map(([kind, count]) => [kind, Number(count)]));
    const row = { ...verdict, findings: counts, duration_ns: Number(duration_ns) };
    const earlier = verdicts.get(id);
    if (earlier === undefined) verdicts.set(id, [row]);
    else earlier.push(row);
  }
  return verdicts;
}

/** The duration of a request does not include the time to record its end. */
const AFTER_END_MS = 60_000;

const texts = [
  ...(['position', 'id', 'request_id', 'auth_key_id', 'auth_method', 'user_path', 'session_id', 'dialect'] as const),
  ...([
    'method',
    'path',
    'client_ip',
    'user_agent',
    'capture',
    'requested_model',
    'provider',
    'provider_type',
  ] as const),
  ...(['model', 'outcome', 'error_type', 'error_code', 'error_message', 'failure_reason', 'finish_reason'] as const),
  ...(['response_id', 'replayed_from', 'cache_type'] as const),
  ...(['workflow_id', 'workflow_scope', 'guardrail_verdict', 'guardrail', 'guardrail_code'] as const),
];
const counts = [
  ...(['stream', 'status', 'duration_ms', 'requests'] as const),
  ...(['workflow_version', 'guardrails_edited', 'guardrail_runs'] as const),
];
const lists = ['labels', 'through', 'workflow_off'] as const;

/**
 * 64-bit numbers are text. Unknown values are empty. `outcome` is `in_progress` for an exchange that has not ended:
 * those are not in ClickHouse. `requests` is more than one for refused requests that are counted in one event.
 */
export type ExchangeRow = Readonly<Record<(typeof texts)[number], string>> &
  Readonly<Record<(typeof counts)[number], number>> &
  Readonly<Record<(typeof lists)[number], readonly string[]>> & {
    /** Microseconds since the epoch. */
    readonly at_us: string;
    readonly first_byte_ms: number | null;
    readonly attempts: readonly AttemptRow[];
  };

/** Number, kind, provider, its type, model, dialect, start in ms after the request, failed, status, code, message. */
export type AttemptRow = readonly [
  number,
  string,
  string,
  string,
  string,
  string,
  number,
  number,
  number,
  string,
  string,
];

const ofAttempt = [
  ...['number', 'kind', 'provider', 'provider_type', 'model', 'dialect'],
  ...['started_ms', 'failed', 'status', 'code', 'message'],
];

/** For after SELECT. */
export const exchangeColumns = [
  ...texts,
  ...counts,
  ...lists,
  'first_byte_ms',
  'toUnixTimestamp64Micro(at) AS at_us',
  `arrayZip(${ofAttempt.map((name) => `attempts.${name}`).join(', ')}) AS attempts`,
].join(', ');

/** The row of an exchange, from its events in order; undefined when they belong to no exchange. */
export function exchangeRowOf(events: Iterable<RecordedEvent>): ExchangeRow | undefined {
  const fold = new ExchangeFold();
  let exchange: ExchangeFacts | undefined;
  for (const event of events) {
    fold.apply(event, parsePosition(event.position));
    exchange ??= fold.get(event.stream);
  }
  return exchange === undefined ? undefined : rowOf(exchange);
}

function rowOf(exchange: ExchangeFacts): ExchangeRow {
  const { first, received, resolved, attempts, usage, replayedFrom, end, guardrails } = exchange;
  const { data, context } = received;
  const { workflow } = data;
  const last = attempts.at(-1)?.started;
  const completed = end?.completed;
  return {
    position: String(end?.position ?? first),
    id: idOf(received.stream),
    at_us: microseconds(received.at),
    request_id: context.requestId ?? '',
    auth_key_id: keyIdOrEmpty(context.actor),
    auth_method: data.authMethod,
    user_path: context.userPath ?? '/',
    session_id: data.sessionId ?? '',
    labels: data.labels ?? [],
    dialect: data.dialect,
    method: data.method,
    path: data.path,
    client_ip: data.clientIp ?? '',
    user_agent: data.headers['user-agent'] ?? '',
    stream: Number(data.stream),
    capture: data.capture,
    requested_model: data.model ?? '',
    provider: completed?.provider ?? last?.provider ?? resolved?.provider ?? '',
    provider_type: last?.providerType ?? resolved?.providerType ?? '',
    model: completed?.model ?? last?.model ?? resolved?.model ?? '',
    through: resolved?.through ?? [],
    outcome: end?.outcome ?? 'in_progress',
    status: end?.status ?? 0,
    error_type: end?.error?.type ?? '',
    error_code: end?.error?.code ?? '',
    error_message: end?.error?.message ?? '',
    failure_reason: end?.failureReason ?? '',
    finish_reason: completed?.finishReason ?? '',
    first_byte_ms: completed?.firstByteMs ?? null,
    duration_ms: end?.durationMs ?? 0,
    requests: 1,
    response_id: end?.responseId ?? '',
    replayed_from: replayedFrom,
    cache_type: exchange.cacheType || (usage?.cacheType ?? ''),
    workflow_id: workflow?.id ?? '',
    workflow_version: workflow?.version ?? 0,
    workflow_scope: workflow?.scope ?? '',
    workflow_off: workflow?.off ?? [],
    guardrail_verdict: guardrails?.verdict ?? '',
    guardrail: guardrails?.decidedBy ?? '',
    guardrail_code: guardrails?.code ?? '',
    guardrails_edited: Number(guardrails?.edited === true),
    guardrail_runs: guardrails?.runs ?? 0,
    attempts: attempts.map(({ started, at, failed }) => [
      started.attempt,
      started.kind,
      started.provider,
      started.providerType,
      started.model ?? '',
      started.dialect,
      Math.max(0, Math.round((at - received.at) * 1000) / 1000),
      Number(failed !== undefined),
      failed?.status ?? 0,
      failed?.code ?? '',
      failed?.message ?? '',
    ]),
  };
}

const writeRow = rowWriter(tables.exchanges);

/** The row of an exchange that has ended, for the table. */
export function writeExchange(rows: TsvRows, exchange: ExchangeFacts, end: ExchangeEnd, retention: Retention): void {
  const { received, usage, historyItems, resumed, toolAnswer } = exchange;
  const { toolCall } = received.data;
  const { attempts, ...row } = rowOf(exchange);
  const values = {
    ...row,
    at: time(received.at),
    ended_at: time(end.at),
    actor: received.context.actor,
    endpoint: row.path.split('?', 1)[0],
    chunks: end.chunks,
    bytes: end.bytes,
    history_items: historyItems,
    resumed,
    attempt_count: attempts.length,
    ...Object.fromEntries(ofAttempt.map((name, place) => [`attempts.${name}`, attempts.map((one) => one[place])])),
    input_tokens: usage?.inputTokens,
    output_tokens: usage?.outputTokens,
    total_tokens: usage?.totalTokens,
    cached_input_tokens: usage?.cachedInputTokens,
    cache_write_input_tokens: usage?.cacheWriteInputTokens,
    cache_write_1h_input_tokens: usage?.cacheWrite1hInputTokens,
    reasoning_tokens: usage?.reasoningTokens,
    usage_known: Number(usage?.source === 'provider'),
    recorded_cost: usage?.totalCost,
    trace_id: received.context.traceparent?.slice(3, 35),
    causation_id: received.context.causationId,
    tool_item_id: toolCall?.itemId,
    tool_argument_bytes: toolCall?.argumentBytes,
    tool_result_bytes: toolAnswer?.bytes,
    tool_ms: toolAnswer?.durationMs,
    tool_error: Number(toolAnswer?.isError === true),
    _retention_days: retention.audit,
  };
  writeRow(rows, values, end.position);
}

/** As in the tables: rounded down to the microsecond. */
function microseconds(at: number): string {
  const whole = Math.floor(at);
  return String(whole * 1000 + Math.floor((at - whole) * 1000));
}
