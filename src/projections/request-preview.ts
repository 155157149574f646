/** The preview of one request in the live tail: the flat form of a row that lists show while the request is open. */
import type { z } from 'zod';
import type { requestReceived } from '../events/catalogue/exchange.ts';
import { managedKeyId, type RecordedEvent } from '../events/event.ts';
import { parseExactly } from '../json/exact-json.ts';
import { AnswerText } from './answer-text.ts';
import type { GuardrailSummary } from './guardrail-summary.ts';
import type { InFlightExchange } from './in-flight.ts';
import { guardrailEntry, type VerdictRow } from './verdicts.ts';
import { featuresWithout } from './workflow-features.ts';

/** Larger bodies are left out of previews, with a flag in their place. The log has them whole. */
export const MAX_PREVIEW_BODY_BYTES = 64 * 1024;

export interface AttemptPreview {
  readonly seq: number;
  readonly kind: string;
  readonly provider_type: string;
  readonly provider_name: string;
  readonly model?: string;
  readonly started_at: string;
  readonly duration_ns?: number;
  readonly status_code?: number;
  readonly success?: boolean;
  readonly error_code?: string | null;
  readonly error_message?: string;
}

/** The state of a request so far. Changed in place by `preview-view.ts`. */
export interface RequestSoFar {
  readonly received: RecordedEvent<string, z.infer<typeof requestReceived.data>>;
  resolved?: { readonly provider: string; readonly providerType: string; readonly model: string };
  attempts: AttemptPreview[];
  attemptStartedAt: number;
  /** Set when the response cache answers. */
  cached: { readonly type: string; readonly exchangeId: string } | undefined;
  /** Whether guardrails evaluate the answer of the attempt: the client then gets frames instead of the provider's chunks. */
  isGuarded: boolean;
  /** The runs of guardrails, and their outcome; undefined when none ran. */
  verdicts: VerdictRow[];
  guardrails: GuardrailSummary | undefined;
  /** What the client receives. */
  answer: AnswerText;
  /** When the answer so far was last sent, and whether it has grown since. */
  answerSentAt: number;
  answerGrew: boolean;
}

export function beginPreview(received: RequestSoFar['received']): RequestSoFar {
  return {
    received,
    attempts: [],
    attemptStartedAt: received.at,
    cached: undefined,
    isGuarded: false,
    verdicts: [],
    guardrails: undefined,
    answer: new AnswerText(MAX_PREVIEW_BODY_BYTES),
    answerSentAt: Number.NEGATIVE_INFINITY,
    answerGrew: false,
  };
}

export interface Ending {
  readonly outcome: 'completed' | 'failed' | 'refused' | 'disconnected';
  readonly status: number;
  readonly durationMs: number;
  readonly errorType?: string;
  readonly errorCode?: string | null;
  readonly errorMessage?: string;
  readonly answer?: Uint8Array;
}

export interface PreviewOptions {
  readonly liveState: string;
  readonly pending: boolean;
  readonly ending?: Ending;
  readonly requestBody?: boolean;
  readonly answer?: 'partial' | 'whole';
}

/** Later events do not change it. Its details are computed when it is serialised, except for a partial answer. */
export function auditPreview(id: string, request: RequestSoFar, options: PreviewOptions): object {
  const { received, resolved, answer, cached } = request;
  const { data, context } = received;
  const { ending } = options;
  const attempts = request.attempts.length === 0 ? undefined : [...request.attempts];
  const { guardrails } = request;
  const verdicts = guardrails === undefined ? undefined : [...request.verdicts];
  const details = () => ({
    user_agent: data.headers['user-agent'],
    request_headers: data.headers,
    ...workflowDetails(data.workflow),
    guardrail_verdict: guardrails?.verdict,
    guardrails_edited: guardrails?.edited === true || undefined,
    guardrails: verdicts?.map(guardrailEntry),
    attempts,
    replayed_from: cached?.exchangeId,
    error_code: ending?.errorCode,
    error_message: ending?.errorMessage,
    ...(options.requestBody === true ? requestBody(received.body) : {}),
    ...(options.answer === undefined ? {} : answerBody(answer, options.answer, ending?.answer)),
  });
  return {
    id,
    request_id: context.requestId,
    timestamp: new Date(received.at).toISOString(),
    duration_ns: ending && nanoseconds(ending.durationMs),
    requested_model: data.model,
    resolved_model: resolved && `${resolved.provider}/${resolved.model}`,
    provider: resolved?.providerType,
    provider_name: resolved?.provider,
    workflow_version_id: data.workflow?.id,
    cache_type: cached?.type,
    status_code: ending?.status,
    auth_key_id: managedKeyId(context.actor),
    auth_method: data.authMethod,
    client_ip: data.clientIp,
    method: data.method,
    path: data.path,
    user_path: context.userPath ?? '/',
    session_id: data.sessionId,
    labels: data.labels,
    stream: data.stream,
    error_type: ending?.errorType,
    error_message: ending?.errorMessage,
    _live_state: options.liveState,
    _live_pending: options.pending,
    data: options.answer === 'partial' ? details() : { toJSON: details },
  };
}

/** About how many bytes a run of a guardrail takes. */
const RUN_WEIGHT = 500;

/** About how many bytes a preview keeps alive. */
export function weightOf(request: RequestSoFar, options: PreviewOptions): number {
  const { body } = request.received;
  const requestBody = options.requestBody === true && body !== undefined ? body.length : 0;
  return (
    2_000 +
    RUN_WEIGHT * request.verdicts.length +
    requestBody +
    (options.answer === undefined ? 0 : request.answer.bytesKept + (options.ending?.answer?.length ?? 0))
  );
}

/** The preview of an open request for a listener that has just connected. Bodies are not read for it. */
export function snapshotPreview(exchange: InFlightExchange, liveState: string): object {
  const { attempt } = exchange;
  return {
    id: exchange.id,
    request_id: exchange.requestId,
    timestamp: new Date(exchange.at).toISOString(),
    requested_model: exchange.requestedModel,
    resolved_model: exchange.model === undefined ? undefined : `${exchange.provider}/${exchange.model}`,
    provider: exchange.providerType,
    provider_name: exchange.provider,
    workflow_version_id: exchange.workflow?.id,
    auth_key_id: managedKeyId(exchange.actor),
    auth_method: exchange.authMethod,
    client_ip: exchange.clientIp,
    method: exchange.method,
    path: exchange.path,
    user_path: exchange.userPath ?? '/',
    stream: exchange.streaming,
    _live_state: liveState,
    _live_pending: true,
    data: {
      user_agent: exchange.userAgent,
      ...workflowDetails(exchange.workflow),
      attempts_made: exchange.attempts,
      attempts:
        attempt === undefined
          ? undefined
          : [
              {
                seq: attempt.seq,
                kind: attempt.kind,
                provider_type: attempt.providerType,
                provider_name: attempt.provider,
                model: attempt.model,
              },
            ],
    },
  };
}

function workflowDetails(workflow: z.infer<typeof requestReceived.data>['workflow']): object {
  if (workflow === undefined) return {};
  const { version, scope, off = [] } = workflow;
  return { workflow_version: version, workflow_scope: scope, workflow_features: featuresWithout(off) };
}

export function nanoseconds(ms: number): number {
  return Math.round(ms * 1e6);
}

function requestBody(body: Uint8Array | undefined): object {
  if (body === undefined) return {};
  if (body.length > MAX_PREVIEW_BODY_BYTES) return { request_body_too_big_to_handle: true };
  return { request_body: jsonOrText(body) };
}

/** `recorded`: the client's answer, when it differs from the provider's. */
function answerBody(answer: AnswerText, part: 'partial' | 'whole', recorded: Uint8Array | undefined): object {
  if (recorded !== undefined) {
    if (recorded.length > MAX_PREVIEW_BODY_BYTES) return { response_body_too_big_to_handle: true };
    return { response_body: jsonOrText(recorded) };
  }
  const soFar = answer.soFar();
  if (soFar === undefined) return {};
  return {
    response_body: soFar.value,
    response_body_partial: part === 'partial' ? true : undefined,
    response_body_too_big_to_handle: soFar.tooBig ? true : undefined,
  };
}

function jsonOrText(body: Uint8Array): unknown {
  const text = Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8');
  try {
    return parseExactly(text);
  } catch {
    return text;
  }
}
