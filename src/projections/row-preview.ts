/**
 * The short form of previews, for clients that show a row for each request: no headers, no bodies, bounded texts. Of a
 * streamed answer it has the last characters so far.
 */
import type { z } from 'zod';
import type { usageRecorded } from '../events/catalogue/exchange.ts';
import { managedKeyId, type RecordedEvent } from '../events/event.ts';
import type { InFlightExchange } from './in-flight.ts';
import { nanoseconds, type PreviewOptions, type RequestSoFar } from './request-preview.ts';
import { usagePreview } from './usage-preview.ts';

/** Characters of an answer that are sent. */
export const MAX_ROW_ANSWER = 4_096;
const MAX_MESSAGE = 500;

/** Later events do not change it. */
export function requestRow(id: string, request: RequestSoFar, options: PreviewOptions): object {
  const { received, resolved, cached, guardrails, attempts, answer } = request;
  const { data, context } = received;
  const { ending } = options;
  const made = attempts.length;
  const row = (text: string) => ({
    id,
    request_id: context.requestId,
    timestamp: new Date(received.at).toISOString(),
    duration_ns: ending && nanoseconds(ending.durationMs),
    requested_model: data.model,
    resolved_model: resolved && `${resolved.provider}/${resolved.model}`,
    provider: resolved?.providerType,
    provider_name: resolved?.provider,
    cache_type: cached?.type,
    outcome: ending?.outcome,
    status_code: ending?.status,
    auth_key_id: managedKeyId(context.actor),
    auth_method: data.authMethod,
    method: data.method,
    path: data.path,
    user_path: context.userPath ?? '/',
    session_id: data.sessionId,
    stream: data.stream,
    attempts: made,
    guardrail_verdict: guardrails?.verdict,
    error_type: ending?.errorType,
    error_code: ending?.errorCode ?? undefined,
    error_message: ending?.errorMessage?.slice(0, MAX_MESSAGE),
    ...(text === '' ? {} : { answer_tail: lastCharacters(text), answer_length: text.length }),
    _live_state: options.liveState,
    _live_pending: options.pending,
  });
  // An answer in progress changes.
  if (options.answer === 'partial') return row(answer.text());
  // An answer that differs from the provider's chunks is not a text that grew.
  const isGrown = options.answer === 'whole' && data.stream && ending?.answer === undefined;
  return { toJSON: () => row(isGrown ? answer.text() : '') };
}

/** Of an open request, for a listener that has just connected. */
export function snapshotRow(exchange: InFlightExchange, liveState: string): object {
  return {
    id: exchange.id,
    request_id: exchange.requestId,
    timestamp: new Date(exchange.at).toISOString(),
    requested_model: exchange.requestedModel,
    resolved_model: exchange.model === undefined ? undefined : `${exchange.provider}/${exchange.model}`,
    provider: exchange.providerType,
    provider_name: exchange.provider,
    auth_key_id: managedKeyId(exchange.actor),
    auth_method: exchange.authMethod,
    method: exchange.method,
    path: exchange.path,
    user_path: exchange.userPath ?? '/',
    stream: exchange.streaming,
    attempts: exchange.attempts,
    _live_state: liveState,
    _live_pending: true,
  };
}

export function usageRow(event: RecordedEvent<string, z.infer<typeof usageRecorded.data>>, exchangeId: string): object {
  return { toJSON: () => ({ ...usagePreview(event, exchangeId), raw_data: undefined, labels: undefined }) };
}

/** Without the second half of a character that was cut. */
function lastCharacters(text: string): string {
  const end = text.slice(-MAX_ROW_ANSWER);
  const first = end.charCodeAt(0);
  return first >= 0xdc00 && first <= 0xdfff ? end.slice(1) : end;
}
