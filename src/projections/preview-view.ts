/**
 * The previews of the live tail. Every request begins with one `audit.started` and ends with exactly one of
 * `audit.completed` (answered) and `audit.failed` (refused, failed, or its client left); both are final and on disk
 * already, so they carry `_live_pending: false`, and no `audit.flushed` follows. In between come `audit.updated`
 * (model, history, guardrails, attempts) and, for streams, `audit.stream` (the answer so far, as the client receives it:
 * of a guarded attempt the delivered frames, otherwise the provider's chunks). `usage.completed` carries tokens and cost.
 */

import type { z } from 'zod';
import { cacheHit } from '../events/catalogue/cache.ts';
import type { usageRecorded } from '../events/catalogue/exchange.ts';
import * as events from '../events/catalogue/exchange.ts';
import { frameDelivered, guardrailApplied } from '../events/catalogue/guardrail.ts';
import { targetOfTool, toolCalled } from '../events/catalogue/mcp.ts';
import { idOf, managedKeyId, type Position, type RecordedEvent, type StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isPieceOfAnswer } from './exchange-events.ts';
import type { InFlight, InFlightExchange } from './in-flight.ts';
import type { LiveFold, LiveFrame, LiveView } from './live-frame.ts';
import { isA } from './projection.ts';
import * as preview from './request-preview.ts';
import { AnswerText, type PreviewOptions, type RequestSoFar, withApplied } from './request-preview.ts';
import { usagePreview } from './usage-preview.ts';
import { verdictsOf } from './verdicts.ts';

/** The answer so far of one request is sent at most this often. */
const ANSWER_EVERY_MS = 500;

const previewTypes = new Map<string, string>([
  [events.requestReceived.type, 'audit.started'],
  [events.modelResolved.type, 'audit.updated'],
  [events.historyReplayed.type, 'audit.updated'],
  [guardrailApplied.type, 'audit.updated'],
  [cacheHit.type, 'audit.updated'],
  [events.attemptStarted.type, 'audit.updated'],
  [events.attemptFailed.type, 'audit.updated'],
  [toolCalled.type, 'audit.updated'],
  [events.chunkReceived.type, 'audit.stream'],
  [frameDelivered.type, 'audit.stream'],
  [events.exchangeCompleted.type, 'audit.completed'],
  [events.requestRefused.type, 'audit.failed'],
  [events.exchangeFailed.type, 'audit.failed'],
  [events.clientDisconnected.type, 'audit.failed'],
  [events.usageRecorded.type, 'usage.completed'],
]);

/** The preview type of an event; undefined for events that have no preview. */
export function previewTypeOf(eventType: string): string | undefined {
  return previewTypes.get(eventType);
}

export function previewView(log: EventLog): LiveView {
  return {
    name: 'previews',
    filter: { streams: ['exchange-'], types: [...previewTypes.keys()] },
    begin: () => new PreviewFold(log),
  };
}

/** The open requests, for a listener that has just connected. */
export function snapshotFrames(
  { exchanges }: InFlight,
  position: Position,
  streamOf: (id: string) => StreamName,
): LiveFrame[] {
  return [...exchanges.values()].map((exchange) => {
    const type = previewTypeOf(exchange.lastEvent) ?? 'audit.updated';
    return {
      type,
      alias: exchange.lastEvent,
      position,
      at: exchange.at,
      stream: streamOf(exchange.id),
      exchangeId: exchange.id,
      requestId: exchange.requestId,
      userPath: exchange.userPath,
      path: exchange.path,
      keyId: managedKeyId(exchange.actor),
      data: preview.snapshotPreview(exchange, type),
      row: snapshotRow(exchange, type),
      weight: 2_000,
    };
  });
}

class PreviewFold implements LiveFold {
  readonly #log: EventLog;
  readonly #open = new Map<StreamName, preview.RequestSoFar>();
  /** Requests whose answer grew since it was last sent. */
  readonly #growing = new Map<StreamName, preview.RequestSoFar>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  apply(event: RecordedEvent): LiveFrame | undefined | Promise<LiveFrame | undefined> {
    if (isA(event, events.requestReceived)) this.#open.set(event.stream, preview.beginPreview(event));
    const request = this.#open.get(event.stream);
    if (request !== undefined) return this.#frameFor(request, event);
    return this.#readRequest(event).then((request) =>
      request === undefined ? undefined : this.#frameFor(request, event),
    );
  }

  due(now: number, position: Position): LiveFrame[] {
    const frames: LiveFrame[] = [];
    for (const [stream, request] of this.#growing) {
      if (now - request.answerSentAt < ANSWER_EVERY_MS) continue;
      frames.push(this.#answerFrame(request, stream, position, now));
    }
    return frames;
  }

  /** Reads the events of the request before this event, which is the first one that the fold gets. */
  async #readRequest(event: RecordedEvent): Promise<preview.RequestSoFar | undefined> {
    let request: preview.RequestSoFar | undefined;
    const before = { maxCount: Number(event.revision) };
    if (before.maxCount === 0) return undefined;
    for await (const earlier of this.#log.readStream(event.stream, before)) {
      if (isA(earlier, events.requestReceived)) request = preview.beginPreview(earlier);
      else if (request !== undefined) learn(request, earlier);
    }
    if (request !== undefined) this.#open.set(event.stream, request);
    return request;
  }

  #frameFor(request: preview.RequestSoFar, event: RecordedEvent): LiveFrame | undefined {
    const { stream, position, at } = event;
    const type = previewTypes.get(event.type);
    if (type === undefined) return undefined;
    if (isA(event, events.usageRecorded)) {
      const data = usagePreview(event, idOf(stream));
      const row = usageRow(event, idOf(stream));
      return { ...placeOf(request, stream), type, alias: event.type, position, at, data, row, weight: 2_000 };
    }
    if (isPieceOfAnswer(event)) {
      learn(request, event);
      if (event.type !== pieceType(request) || !request.answerGrew) return undefined;
      if (at - request.answerSentAt >= ANSWER_EVERY_MS) return this.#answerFrame(request, stream, position, at);
      this.#growing.set(stream, request);
      return undefined;
    }
    learn(request, event);
    let options: preview.PreviewOptions;
    if (events.exchangeEnds.has(event.type)) {
      this.#open.delete(stream);
      this.#growing.delete(stream);
      options = { liveState: type, pending: false, ending: endingOf(event), requestBody: true, answer: 'whole' };
    } else {
      // The body is sent once, with `model.resolved`: a list merges previews by id.
      options = { liveState: type, pending: true, requestBody: event.type === events.modelResolved.type };
    }
    return frameOf(request, options, event.type, stream, position, at);
  }

  #answerFrame(request: preview.RequestSoFar, stream: StreamName, position: Position, at: number): LiveFrame {
    request.answerSentAt = at;
    request.answerGrew = false;
    this.#growing.delete(stream);
    const options: preview.PreviewOptions = { liveState: 'audit.stream', pending: true, answer: 'partial' };
    return frameOf(request, options, pieceType(request), stream, position, at);
  }
}

/** The type of the events that hold what the client receives. */
function pieceType({ isGuarded }: preview.RequestSoFar): string {
  return isGuarded ? frameDelivered.type : events.chunkReceived.type;
}

function learn(request: preview.RequestSoFar, event: RecordedEvent): void {
  if (isPieceOfAnswer(event)) {
    if (event.body === undefined || event.type !== pieceType(request)) return;
    request.answer.add(event.body);
    request.answerGrew = request.received.data.stream;
  } else if (isA(event, events.modelResolved)) {
    request.resolved = event.data;
  } else if (isA(event, toolCalled)) {
    request.resolved = targetOfTool(event.data.server, event.data.tool);
  } else if (isA(event, events.attemptStarted)) {
    const { attempt: seq, kind, provider, providerType, model, guarded } = event.data;
    request.isGuarded = guarded === true;
    const started_at = new Date(event.at).toISOString();
    request.attempts.push({ seq, kind, provider_type: providerType, provider_name: provider, model, started_at });
    request.attemptStartedAt = event.at;
    request.answer = new AnswerText(preview.MAX_PREVIEW_BODY_BYTES);
    request.answerGrew = false;
  } else if (isA(event, cacheHit)) {
    request.cached = { type: event.data.cacheType, exchangeId: event.data.exchangeId };
  } else if (isA(event, guardrailApplied)) {
    request.verdicts.push(...verdictsOf(event.data));
    request.guardrails = withApplied(request.guardrails, event.data);
  } else if (isA(event, events.attemptFailed)) {
    const { status, code, message } = event.data;
    endAttempt(request, event.at, { status_code: status, success: false, error_code: code, error_message: message });
  } else if (isA(event, events.exchangeCompleted)) {
    endAttempt(request, event.at, { status_code: event.data.status, success: true });
  }
}

function endAttempt(
  request: preview.RequestSoFar,
  at: number,
  outcome: Partial<preview.RequestSoFar['attempts'][number]>,
): void {
  const last = request.attempts.pop();
  if (last === undefined) return;
  request.attempts.push({ ...last, ...outcome, duration_ns: preview.nanoseconds(at - request.attemptStartedAt) });
}

function endingOf(event: RecordedEvent): preview.Ending | undefined {
  if (isA(event, events.exchangeCompleted)) {
    return { outcome: 'completed', status: event.data.status, durationMs: event.data.durationMs, answer: event.body };
  }
  if (isA(event, events.requestRefused) || isA(event, events.exchangeFailed)) {
    const { status, durationMs, type, code, message } = event.data;
    const answer = event.body;
    const outcome = isA(event, events.requestRefused) ? 'refused' : 'failed';
    return { outcome, status, durationMs, errorType: type, errorCode: code, errorMessage: message, answer };
  }
  if (isA(event, events.clientDisconnected)) {
    const message = 'The client left before its answer was complete.';
    // No status reached the client: such a request counts as 499.
    return {
      outcome: 'disconnected',
      status: 499,
      durationMs: event.data.durationMs,
      errorType: 'client_disconnected',
      errorMessage: message,
    };
  }
  return undefined;
}

function frameOf(
  request: preview.RequestSoFar,
  options: preview.PreviewOptions,
  alias: string,
  stream: StreamName,
  position: Position,
  at: number,
): LiveFrame {
  return {
    ...placeOf(request, stream),
    type: options.liveState,
    alias,
    position,
    at,
    data: preview.auditPreview(idOf(stream), request, options),
    row: requestRow(idOf(stream), request, options),
    weight: preview.weightOf(request, options),
  };
}

/** The members of a frame that filters use. */
function placeOf(request: preview.RequestSoFar, stream: StreamName) {
  const { context, data } = request.received;
  return {
    stream,
    exchangeId: idOf(stream),
    requestId: context.requestId,
    userPath: context.userPath,
    path: data.path,
    keyId: managedKeyId(context.actor),
  };
}

// The short form of previews, for clients that show a row for each request: no headers, no bodies, bounded texts. Of a
// streamed answer it has the last characters so far.

/** Characters of an answer that are sent. */
const MAX_ROW_ANSWER = 4_096;
const MAX_MESSAGE = 500;

/** Later events do not change it. */
function requestRow(id: string, request: RequestSoFar, options: PreviewOptions): object {
  const { received, cached, guardrails, attempts, answer } = request;
  const { data, context } = received;
  const { ending } = options;
  const made = attempts.length;
  const head = preview.previewHead(id, request, ending);
  const row = (text: string) => ({
    ...head,
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
function snapshotRow(exchange: InFlightExchange, liveState: string): object {
  return {
    ...preview.snapshotHead(exchange),
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

function usageRow(event: RecordedEvent<string, z.infer<typeof usageRecorded.data>>, exchangeId: string): object {
  return { toJSON: () => ({ ...usagePreview(event, exchangeId), raw_data: undefined, labels: undefined }) };
}

/** Without the second half of a character that was cut. */
function lastCharacters(text: string): string {
  const end = text.slice(-MAX_ROW_ANSWER);
  const first = end.charCodeAt(0);
  return first >= 0xdc00 && first <= 0xdfff ? end.slice(1) : end;
}
