/** A request as an entry of the audit log. Empty members are omitted. */
import { z } from 'zod';
import type { Ask } from '../../../projections/analytics/analytics-db.ts';
import {
  type RequestTokens,
  type RequestUsage,
  usageOfRequests,
} from '../../../projections/analytics/audit-queries.ts';
import { type AttemptRow, type ExchangeRow, verdictsOfRequests } from '../../../projections/analytics/exchange-row.ts';
import { featuresWithout } from '../../../projections/request-preview.ts';
import { uncachedOf } from '../../../projections/usage-preview.ts';
import { guardrailEntry, type VerdictRow } from '../../../projections/verdicts.ts';
import { timeText } from '../../dates.ts';
import { features } from '../guardrails/workflow-rows.ts';

const NANOSECONDS = 1e6;
/** Approximate characters of text per token. */
const CHARACTERS_OF_TOKEN = 4;
const USD = 1e9;

const usage = z.object({
  entries: z.int(),
  input_tokens: z.int().nullable().describe('This and the other counts are null when no provider reported any'),
  uncached_input_tokens: z.int().nullable(),
  cached_input_tokens: z.int().nullable(),
  cache_write_input_tokens: z.int().nullable(),
  cached_input_ratio: z.number().nullable(),
  estimated_cached_characters: z.int().nullable(),
  output_tokens: z.int().nullable(),
  total_tokens: z.int().nullable(),
  total_cost: z.number().nullable().describe('US dollars; null is unknown, 0 is free'),
  rewrite_tokens_saved: z.int(),
  rewrite_cost_saved: z.number().nullable(),
});

const attempt = z.object({
  seq: z.int(),
  kind: z.enum(['primary', 'retry', 'translation', 'failover']),
  provider_type: z.string().optional(),
  provider_name: z.string().optional(),
  model: z.string().optional(),
  dialect: z.string().optional(),
  status_code: z.int().optional().describe('Of a failed attempt, when the provider answered'),
  success: z.boolean(),
  error_code: z.string().optional(),
  error_message: z.string().optional(),
  started_at: z.iso.datetime(),
  response_body: z
    .unknown()
    .optional()
    .describe('In full entries: the error of a failed attempt; what the provider sent, where guardrails evaluated it'),
  response_body_too_big_to_handle: z.literal(true).optional().describe('Only the first MiB is included'),
});

const verdict = z.enum(['allow', 'warn', 'respond', 'failure', 'block']);

const revision = z.object({
  seq: z.int(),
  rewriter: z.literal('guardrails'),
  bytes_before: z.int().optional().describe('Absent when the body of the request was not kept'),
  bytes_after: z.int(),
  body: z.unknown().optional().describe('The request as guardrails changed it: JSON, or text'),
  body_too_big_to_handle: z.literal(true).optional().describe('The body is larger than 1 MiB and omitted'),
});

const guardrailRun = z.object({
  seq: z.int(),
  phase: z.enum(['prompt', 'response', 'stream']),
  attempt: z.int().optional().describe('The attempt whose answer was evaluated'),
  step: z.int(),
  instance: z.string().describe('Name of the guardrail'),
  type: z.string(),
  action: verdict,
  decided: z.literal(true).optional().describe('Whether its verdict is that of the phase'),
  code: z.string().optional(),
  message: z.string().optional(),
  error: z.string().optional().describe('Of a failure'),
  fail_mode: z.enum(['closed', 'open']).optional().describe('Of a failure'),
  edited: z.boolean().describe('Whether it changed texts, the system text or headers'),
  target: z.enum(['request', 'response']),
  findings: z.record(z.string(), z.int()).optional().describe('Number of matches by kind'),
  duration_ns: z.int(),
});

export const auditEntry = z.object({
  id: z.string(),
  timestamp: z.iso.datetime(),
  duration_ns: z.int(),
  requested_model: z.string().optional(),
  resolved_model: z.string().optional().describe('`<provider name>/<model>`'),
  provider: z.string().optional().describe('Type of the provider'),
  provider_name: z.string().optional(),
  alias_used: z.boolean().optional(),
  workflow_version_id: z.string().optional().describe('Id of the version of its workflow'),
  cache_type: z.enum(['exact', 'semantic']).optional(),
  outcome: z.enum(['completed', 'failed', 'refused', 'disconnected', 'in_progress']),
  requests: z.number().optional().describe('Number of refused requests that were counted together'),
  status_code: z.int().describe('0 when no status was sent, 499 when the client disconnected'),
  request_id: z.string().optional(),
  auth_key_id: z.string().optional(),
  auth_method: z.enum(['api_key', 'master_key', 'no_key']),
  client_ip: z.string().optional(),
  method: z.string().optional().describe('Absent for requests that were counted together'),
  path: z.string().optional().describe('Absent for requests that were counted together without their endpoint'),
  user_path: z.string(),
  session_id: z.string().optional(),
  stream: z.boolean(),
  error_type: z.string().optional(),
  data: z.object({
    user_agent: z.string().optional(),
    labels: z.array(z.string()).optional(),
    virtual_models: z.array(z.string()).optional(),
    workflow_version: z.int().optional(),
    workflow_scope: z.string().optional().describe('Such as `global` or `path:/team`'),
    workflow_features: features.optional().describe('The features that the workflow did not turn off'),
    guardrail_verdict: verdict.optional().describe('The strongest; absent when no guardrail ran'),
    guardrails_edited: z.literal(true).optional().describe('Guardrails changed the request or the answer'),
    guardrails: z.array(guardrailRun).optional().describe('Every run, in order'),
    request_revisions: z.array(revision).optional().describe('In full entries'),
    attempts: z.array(attempt).optional(),
    finish_reason: z.string().optional(),
    first_byte_ms: z.number().optional(),
    response_id: z.string().optional(),
    replayed_from: z
      .string()
      .optional()
      .describe('The exchange whose answer was returned again, by an idempotency key or from the response cache'),
    error_message: z.string().optional(),
    error_code: z.string().optional(),
    error_provider: z.string().optional(),
    failure_reason: z.string().optional(),
    request_headers: z.record(z.string(), z.string()).optional(),
    request_body: z.unknown().optional().describe('JSON, or text'),
    request_body_bytes: z.number().optional().describe('Size of a body of which only the beginning is kept'),
    request_body_sha256: z.string().optional().describe('SHA-256 of a body of which only the beginning is kept'),
    request_body_too_big_to_handle: z.literal(true).optional().describe('The body is larger than 1 MiB and omitted'),
    response_body: z.unknown().optional().describe('JSON, or text: a stream as the client received it'),
    response_body_too_big_to_handle: z.literal(true).optional().describe('Only the first MiB is included'),
  }),
  usage: usage.optional(),
  bodies_omitted: z.literal(true).optional().describe('In lists'),
  conversation_payload: z.literal(true).optional().describe('The full entry contains a conversation'),
});

/** Content that only the log holds. */
export interface RecordedContent {
  readonly requestHeaders: Readonly<Record<string, string>>;
  /** JSON where it is JSON, else text; undefined when it was not kept. */
  readonly requestBody: unknown;
  readonly requestBodyTooBig: boolean;
  /** Size and SHA-256 of the whole body, where only its beginning is kept. */
  readonly requestBodyCut: { readonly bytes: number; readonly sha256: string } | undefined;
  readonly responseBody: unknown;
  readonly responseBodyTooBig: boolean;
  /** The request each time that guardrails changed it. */
  readonly revisions: readonly Revision[];
  /** What providers sent with their errors, by the number of the attempt. */
  readonly attemptBodies: ReadonlyMap<number, unknown>;
  /** What the provider of the last attempt sent, where guardrails evaluated it. */
  readonly providerBody: unknown;
  readonly providerBodyTooBig: boolean;
}

interface Revision {
  /** Undefined when the body of the request was not kept. */
  readonly bytesBefore: number | undefined;
  readonly bytesAfter: number;
  /** Undefined when it is too big. */
  readonly body: unknown;
}

/** What belongs to a request and is in other tables than its row. */
interface OfRequest {
  readonly usage: RequestUsage | undefined;
  /** Undefined when no guardrail ran. */
  readonly verdicts: readonly VerdictRow[] | undefined;
}

/** The entry in lists: without request and response bodies. */
function slimEntry(row: ExchangeRow, other: OfRequest): Record<string, unknown> {
  return {
    ...entry(row, other, undefined),
    bodies_omitted: true,
    ...(holdsConversation(row) ? { conversation_payload: true } : {}),
  };
}

const conversations = new Set(['chat', 'responses', 'messages']);

function holdsConversation({ capture, dialect }: ExchangeRow): boolean {
  return capture === 'full' && conversations.has(dialect);
}

/** @param recorded its content; undefined for an entry without it */
export function entry(
  row: ExchangeRow,
  { usage, verdicts = [] }: OfRequest,
  recorded: RecordedContent | undefined,
): Record<string, unknown> {
  const startedAt = Number(row.at_us) / 1000;
  return given({
    id: row.id,
    timestamp: timeText(startedAt),
    duration_ns: Math.round(row.duration_ms * NANOSECONDS),
    requested_model: row.requested_model,
    resolved_model: row.provider === '' || row.model === '' ? '' : `${row.provider}/${row.model}`,
    provider: row.provider_type,
    provider_name: row.provider,
    alias_used: row.through.length > 0 || undefined,
    workflow_version_id: row.workflow_id,
    cache_type: row.cache_type,
    outcome: row.outcome,
    requests: row.requests > 1 ? row.requests : undefined,
    status_code: row.status,
    request_id: row.request_id,
    auth_key_id: row.auth_key_id,
    auth_method: row.auth_method,
    client_ip: row.client_ip,
    method: row.method,
    path: row.path,
    user_path: row.user_path,
    session_id: row.session_id,
    stream: row.stream === 1,
    error_type: row.error_type,
    data: given({
      user_agent: row.user_agent,
      labels: row.labels,
      virtual_models: row.through,
      workflow_version: row.workflow_id === '' ? undefined : row.workflow_version,
      workflow_scope: row.workflow_scope,
      workflow_features: row.workflow_id === '' ? undefined : featuresWithout(row.workflow_off),
      guardrail_verdict: row.guardrail_verdict,
      guardrails_edited: row.guardrails_edited === 1 || undefined,
      guardrails: verdicts.map(guardrailEntry),
      request_revisions: recorded?.revisions.map(revisionOf),
      attempts: row.attempts.map((attempt, index) =>
        attemptOf(attempt, startedAt, recorded, index === row.attempts.length - 1),
      ),
      finish_reason: row.finish_reason,
      first_byte_ms: row.first_byte_ms,
      response_id: row.response_id,
      replayed_from: row.replayed_from,
      error_message: row.error_message,
      error_code: row.error_code,
      error_provider: row.failure_reason === 'provider_error' ? row.provider : '',
      failure_reason: row.failure_reason,
      request_headers: recorded?.requestHeaders,
      request_body: recorded?.requestBody,
      request_body_too_big_to_handle: recorded?.requestBodyTooBig === true || undefined,
      request_body_bytes: recorded?.requestBodyCut?.bytes,
      request_body_sha256: recorded?.requestBodyCut?.sha256,
      response_body: recorded?.responseBody,
      response_body_too_big_to_handle: recorded?.responseBodyTooBig === true || undefined,
    }),
    usage: usage === undefined ? undefined : usageOf(usage),
  });
}

function attemptOf(
  attempt: AttemptRow,
  startedAt: number,
  recorded: RecordedContent | undefined,
  isLast: boolean,
): Record<string, unknown> {
  const [number, kind, provider, providerType, model, dialect, startedMs, failed, status, code, message] = attempt;
  return given({
    seq: number,
    kind,
    provider_type: providerType,
    provider_name: provider,
    model,
    dialect,
    status_code: status === 0 ? undefined : status,
    success: failed === 0,
    error_code: code,
    error_message: message,
    started_at: timeText(startedAt + startedMs),
    response_body: recorded?.attemptBodies.get(number) ?? (isLast ? recorded?.providerBody : undefined),
    response_body_too_big_to_handle: (isLast && recorded?.providerBodyTooBig) || undefined,
  });
}

function revisionOf({ bytesBefore, bytesAfter, body }: Revision, index: number): Record<string, unknown> {
  return given({
    seq: index + 1,
    rewriter: 'guardrails',
    bytes_before: bytesBefore,
    bytes_after: bytesAfter,
    body,
    body_too_big_to_handle: body === undefined || undefined,
  });
}

/** Tokens that no provider reported are null, as in the usage log. */
function usageOf(usage: RequestUsage): Record<string, unknown> {
  const { entries, tokens, totalCost } = usage;
  return {
    entries,
    input_tokens: tokens?.input ?? null,
    uncached_input_tokens: tokens === null ? null : uncachedOf(tokens.input, tokens.cachedInput),
    cached_input_tokens: tokens?.cachedInput ?? null,
    cache_write_input_tokens: tokens?.cacheWriteInput ?? null,
    cached_input_ratio: cachedRatio(tokens),
    estimated_cached_characters: tokens === null ? null : tokens.cachedInput * CHARACTERS_OF_TOKEN,
    output_tokens: tokens?.output ?? null,
    total_tokens: tokens?.total ?? null,
    total_cost: totalCost === null ? null : Number(totalCost) / USD,
    rewrite_tokens_saved: 0,
    rewrite_cost_saved: null,
  };
}

function cachedRatio(tokens: RequestTokens | null): number | null {
  if (tokens === null) return null;
  return tokens.input === 0 ? 0 : Math.min(1, tokens.cachedInput / tokens.input);
}

/** Omits unknown members: empty text, empty lists, null and undefined. */
function given(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(members).filter(
      ([, value]) =>
        value !== undefined && value !== null && value !== '' && !(Array.isArray(value) && value.length === 0),
    ),
  );
}

/** The entries of lists, in the order of the rows. @throws AnalyticsUnavailable */
export async function slimEntries(ask: Ask, rows: readonly ExchangeRow[]): Promise<Record<string, unknown>[]> {
  const [usage, verdicts] = await Promise.all([usageOfRequests(ask, rows), verdictsOfRequests(ask, rows)]);
  return rows.map((row) => slimEntry(row, { usage: usage.get(row.id), verdicts: verdicts.get(row.id) }));
}
