/** The events of `GET /admin/live/logs?view=rows`, as values. */
import type { ServerSentEvent } from './server-sent-events.ts';

/** A position in the log, as text of decimal digits. */
export type LogPosition = string;

export function isBefore(one: LogPosition, other: LogPosition): boolean {
  return one.length === other.length ? one < other : one.length < other.length;
}

/** A preview of a request: the members that the gateway sent. */
export interface RequestPreview {
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly requestId?: string;
  readonly method?: string;
  readonly path?: string;
  readonly userPath?: string;
  readonly keyId?: string;
  readonly authMethod?: string;
  readonly sessionId?: string;
  readonly requestedModel?: string;
  /** `<provider name>/<model>` */
  readonly resolvedModel?: string;
  readonly cacheType?: string;
  readonly isStream?: boolean;
  readonly attempts?: number;
  readonly guardrailVerdict?: string;
  /** The end of the answer so far, and the length of the whole answer in characters. */
  readonly answerTail?: string;
  readonly answerLength?: number;
  readonly outcome?: Outcome;
  readonly status?: number;
  readonly durationMs?: number;
  readonly errorType?: string;
  readonly errorCode?: string;
  readonly errorMessage?: string;
}

export type Outcome = 'completed' | 'failed' | 'refused' | 'disconnected';

export interface UsageEntry {
  readonly id: string;
  readonly exchangeId: string;
  /** Null is unknown. */
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** US dollars; null is unknown. */
  readonly cost: number | null;
}

interface Sent {
  readonly position: LogPosition;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** False for a request that was in flight when the connection began: such events come before all others. */
  readonly isNew: boolean;
}

export type LiveEvent = Sent &
  (
    | { readonly kind: 'heartbeat' }
    /** Missed events are not sent again. The requests in flight follow. */
    | { readonly kind: 'reset' }
    | { readonly kind: 'request'; readonly request: RequestPreview }
    | { readonly kind: 'usage'; readonly usage: UsageEntry }
  );

type Json = Readonly<Record<string, unknown>>;

/** @returns undefined for events that rows do not show @throws when the event is not one of the gateway */
export function liveEvent({ id, type, data }: ServerSentEvent): LiveEvent | undefined {
  const envelope = objectOf(JSON.parse(data));
  const position = textOf(envelope, 'seq');
  if (position === undefined) throw new Error(`An event of the live logs has no position: ${data.slice(0, 200)}`);
  const sent: Sent = { position, at: timeOf(envelope, 'timestamp'), isNew: id !== undefined };
  if (type === 'heartbeat' || type === 'reset') return { ...sent, kind: type };
  const content = objectOf(envelope['data']);
  if (type.startsWith('audit.')) return { ...sent, kind: 'request', request: requestPreview(content) };
  if (type === 'usage.completed') return { ...sent, kind: 'usage', usage: usageEntry(content) };
  return undefined;
}

function requestPreview(json: Json): RequestPreview {
  const nanoseconds = numberOf(json, 'duration_ns');
  return given({
    id: textOf(json, 'id') ?? '',
    startedAt: timeOf(json, 'timestamp'),
    requestId: textOf(json, 'request_id'),
    method: textOf(json, 'method'),
    path: textOf(json, 'path'),
    userPath: textOf(json, 'user_path'),
    keyId: textOf(json, 'auth_key_id'),
    authMethod: textOf(json, 'auth_method'),
    sessionId: textOf(json, 'session_id'),
    requestedModel: textOf(json, 'requested_model'),
    resolvedModel: textOf(json, 'resolved_model'),
    cacheType: textOf(json, 'cache_type'),
    isStream: json['stream'] === true ? true : undefined,
    attempts: numberOf(json, 'attempts'),
    guardrailVerdict: textOf(json, 'guardrail_verdict'),
    answerTail: textOf(json, 'answer_tail'),
    answerLength: numberOf(json, 'answer_length'),
    outcome: outcomeOf(textOf(json, 'outcome')),
    status: numberOf(json, 'status_code'),
    durationMs: nanoseconds === undefined ? undefined : nanoseconds / 1e6,
    errorType: textOf(json, 'error_type'),
    errorCode: textOf(json, 'error_code'),
    errorMessage: textOf(json, 'error_message'),
  });
}

/** An ended request, from an entry of `GET /admin/audit/log`. */
export function requestOfEntry(entry: unknown): RequestPreview {
  const json = objectOf(entry);
  const details = objectOf(json['data']);
  const attempts = details['attempts'];
  return given({
    ...requestPreview({ ...json, attempts: Array.isArray(attempts) ? attempts.length : undefined }),
    errorCode: textOf(details, 'error_code'),
    errorMessage: textOf(details, 'error_message'),
    guardrailVerdict: textOf(details, 'guardrail_verdict'),
  });
}

export interface UsageTotals {
  readonly entries: number;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly cost: number | null;
}

/** Tokens and cost in an entry of `GET /admin/audit/log`. */
export function usageOfEntry(entry: unknown): UsageTotals | undefined {
  const usage = objectOf(entry)['usage'];
  if (typeof usage !== 'object' || usage === null) return undefined;
  const json = objectOf(usage);
  return {
    entries: numberOf(json, 'entries') ?? 1,
    inputTokens: numberOf(json, 'input_tokens') ?? null,
    outputTokens: numberOf(json, 'output_tokens') ?? null,
    cost: numberOf(json, 'total_cost') ?? null,
  };
}

function usageEntry(json: Json): UsageEntry {
  return {
    id: textOf(json, 'id') ?? '',
    exchangeId: textOf(json, 'exchange_id') ?? '',
    inputTokens: numberOf(json, 'input_tokens') ?? null,
    outputTokens: numberOf(json, 'output_tokens') ?? null,
    cost: numberOf(json, 'total_cost') ?? null,
  };
}

function outcomeOf(text: string | undefined): Outcome | undefined {
  return text === 'completed' || text === 'failed' || text === 'refused' || text === 'disconnected' ? text : undefined;
}

function objectOf(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function textOf(json: Json, name: string): string | undefined {
  const value = json[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function numberOf(json: Json, name: string): number | undefined {
  const value = json[name];
  return typeof value === 'number' ? value : undefined;
}

/** Milliseconds since the epoch. */
function timeOf(json: Json, name: string): number {
  const time = Date.parse(textOf(json, name) ?? '');
  return Number.isNaN(time) ? 0 : time;
}

/** Without undefined members, so that a later preview does not remove what an earlier one had. */
function given<T extends object>(members: T): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}
