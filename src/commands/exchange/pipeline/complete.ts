/** The last step: records the end of the exchange durably, then sends the rest of the answer to the client. */

import { frameDelivered } from '../../../events/catalogue/guardrail.ts';
import { EventTooLarge } from '../../../events/log.ts';
import type { Client } from '../../model-request/model-request.ts';
import type { RefusedTarget, Target } from '../../model-request/routing-types.ts';
import { answerNotRecordable, gatewayStopping, responseCancelled } from '../../model-request/upstream-refusals.ts';
import type { EstimatedTokens } from '../../model-request/usage.ts';
import { everything, isSameOwner } from '../../visibility.ts';
import type { DeliveredAnswer, OwnAnswer } from '../answer-source.ts';
import { noteOutcome, type PendingResponse } from '../background/background-response.ts';
import { type CachePlace, noteCached } from '../caching/store-answer.ts';
import { answerHeaders } from '../delivery/answer-headers.ts';
import { pastAttempt } from '../guarding/guarded-stream.ts';
import { type Answered, type AttemptEnd, isMade } from '../plan.ts';
import * as events from '../record/end-events.ts';
import { noteConversationTurn } from '../record/end-events.ts';
import { estimateUsage, noteDeferral, noteSpending } from '../record/spending.ts';
import { bytesOfGiven } from '../response-stream.ts';
import {
  completeCachedAnswer,
  keepResponse,
  keepsResponse,
  NO_ATTEMPT,
  replayHeaders,
  sendError,
  sendWhole,
  wholeContentType,
} from './deliver.ts';
import { type Admitted, isAdmitted, isGoverned, type RunningExchange } from './running-exchange.ts';

/** @returns the status that represents the end of the exchange. @throws LogUnavailable */
export async function complete(delivered: DeliveredAnswer, exchange: RunningExchange): Promise<number> {
  if (delivered.source === 'record') return completeReplay(delivered, exchange);
  if (delivered.source === 'cache' && isGoverned(exchange)) return completeCachedAnswer(delivered.answer, exchange);
  if (delivered.source === 'cache' || !isAdmitted(exchange)) throw new Error('the exchange was not admitted');
  if (delivered.source === 'gateway') return completeOwnAnswer(delivered.answer, exchange);
  const { answer, outcome } = delivered;
  if (outcome.kind === 'refused') return completeRefused(outcome, exchange);
  try {
    return await completeAnswered(outcome, answer.target, exchange);
  } catch (error) {
    if (!(error instanceof EventTooLarge)) throw error;
    return completeUnrecordable(outcome, answer.target, exchange);
  }
}

async function completeRefused(refused: RefusedTarget, exchange: Admitted): Promise<number> {
  const { record, pendingResponse, reservation } = exchange;
  const { refusal, reason = 'provider_error' } = refused;
  const wasCalled = refused.attempts > 0 && !(reason === 'budget_exceeded' && !record.called);
  if (!wasCalled) events.noteRefused(record, refusal);
  else events.noteFailed(record, refusal, { status: refusal.status, reason, chunks: 0 });
  if (pendingResponse !== undefined) noteOutcome(pendingResponse, 'failed', refusal, undefined);
  await record.flush('durable');
  return sendError(exchange, refusal, reservation);
}

async function completeAnswered(outcome: AttemptEnd, target: Target, exchange: Admitted): Promise<number> {
  const { record, client, dialect, parsedRequest, request, guarded, pendingResponse, reservation, deps } = exchange;
  const { chunks } = outcome.received;
  const estimate = await estimateUsage(outcome, exchange, deps.log);
  if (outcome.kind === 'abandoned' && pendingResponse !== undefined) {
    return completeInterrupted(outcome, target, exchange, pendingResponse, estimate);
  }
  const isForeign =
    outcome.kind !== 'blocked' && outcome.plan.dialect === 'responses' && (await isIdTaken(outcome, target, exchange));
  const isKept = !isForeign && outcome.kind !== 'blocked' && keepsResponse(exchange);
  const responseId = isKept ? recordResponse(outcome, target, exchange) : undefined;
  switch (outcome.kind) {
    case 'whole':
    case 'streamed': {
      const { reply } = outcome;
      if (dialect.turn !== undefined) {
        const by = { visibility: request.caller.visibility, placeholders: guarded?.guard.placeholders.added() };
        await noteConversationTurn(dialect, parsedRequest, outcome.answer.writer, record, by);
      }
      const cached = exchange.cachePlace && offerAnswer(outcome, target, exchange, exchange.cachePlace);
      const bytes = outcome.kind === 'whole' ? outcome.bytes : undefined;
      recordCompletion(outcome, target, exchange, reply.status, responseId, bytes);
      recordUsage(outcome, target, exchange, { isWhole: true, estimate });
      const appended = await record.flush('durable');
      cached?.(appended);
      const headers = client.begun ? {} : answerHeaders(exchange, target, reply);
      if (outcome.kind === 'whole') client.answer(reply.status, headers, outcome.bytes);
      else finishStream(client, reply.status, headers, outcome.rest);
      return reply.status;
    }
    case 'broken': {
      const { refusal } = outcome;
      const reason = refusal.code === 'budget_exceeded' ? refusal.code : 'stream_broken';
      events.noteFailed(record, refusal, { status: 200, reason, chunks, responseId });
      recordUsage(outcome, target, exchange, { estimate });
      await record.flush('durable');
      if (outcome.cut) return sendError(exchange, refusal, reservation);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
    case 'blocked': {
      const { refusal, isWhole } = outcome;
      const failedId = pendingResponse && noteOutcome(pendingResponse, 'failed', refusal, undefined);
      events.noteFailed(record, refusal, {
        status: refusal.status,
        reason: 'guardrail',
        chunks,
        responseId: failedId,
      });
      recordUsage(outcome, target, exchange, { isWhole, estimate });
      await record.flush('durable');
      return sendError(exchange, refusal, reservation);
    }
    case 'abandoned': {
      if (client.ended.reason !== 'gateway_stopping') {
        events.noteDisconnected(record, outcome.received, responseId);
        recordUsage(outcome, target, exchange, { estimate });
        await record.flush('durable');
        return 499;
      }
      const refusal = gatewayStopping();
      const status = client.begun ? 200 : refusal.status;
      events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks, responseId });
      recordUsage(outcome, target, exchange, { estimate });
      await record.flush('durable');
      if (!client.begun || outcome.cut) return sendError(exchange, refusal, reservation);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
  }
}

/** Ends an exchange whose answer the log does not accept: without what was to be stored, and charged. */
async function completeUnrecordable(
  { plan, attempt, received }: Answered,
  { provider }: Target,
  exchange: Admitted,
): Promise<number> {
  const { record, client, pendingResponse, reservation, deps } = exchange;
  const { maxEventBytes } = deps.log.capabilities;
  const refusal = answerNotRecordable(provider.name, maxEventBytes);
  const usage = record.withdraw(maxEventBytes / 2);
  const responseId = pendingResponse && noteOutcome(pendingResponse, 'failed', refusal, undefined);
  const { begun } = client;
  events.noteFailed(record, refusal, {
    status: begun ? 200 : refusal.status,
    reason: begun ? 'stream_broken' : 'provider_error',
    chunks: received.chunks,
    responseId,
  });
  for (const event of usage) record.note(event);
  deps.responseNotStored(provider);
  await record.flush('durable');
  // A new stream: this one has ended, without the error.
  const last = begun ? plan.newStream(attempt).unguarded.broken(refusal) : undefined;
  if (last === undefined) return sendError(exchange, refusal, reservation);
  finishStream(client, 200, {}, [last]);
  return refusal.status;
}

/**
 * Ends a background response that was cancelled, or that the stop of the gateway interrupted. In the latter case, a
 * response without any chunk is generated after the next start.
 */
async function completeInterrupted(
  outcome: Extract<AttemptEnd, { kind: 'abandoned' }>,
  target: Target,
  exchange: Admitted,
  pending: PendingResponse,
  estimate: EstimatedTokens | undefined,
): Promise<number> {
  const { record, client, reservation, deps } = exchange;
  const { chunks } = outcome.received;
  const cancelled = client.ended.reason === 'cancelled';
  const refusal = cancelled ? responseCancelled() : gatewayStopping();
  if (!cancelled && chunks === 0) {
    await record.flush('durable');
    deps.open.leftOpen(record.stream);
    return sendError(exchange, refusal, reservation);
  }
  const response = chunks > 0 ? outcome.answer.writer.response?.() : undefined;
  const responseId = noteOutcome(pending, cancelled ? 'cancelled' : 'failed', refusal, response);
  const reason = cancelled ? 'cancelled' : 'gateway_stopped';
  const status = client.begun ? 200 : refusal.status;
  events.noteFailed(record, refusal, { status, reason, chunks, responseId });
  recordUsage(outcome, target, exchange, { estimate });
  await record.flush('durable');
  if (!client.begun) return sendError(exchange, refusal, reservation);
  finishStream(client, 200, {}, outcome.rest);
  return refusal.status;
}

function offerAnswer(
  outcome: Extract<AttemptEnd, { kind: 'whole' | 'streamed' }>,
  target: Target,
  { dialect, parsedRequest, record, guarded, deps }: Admitted,
  place: CachePlace,
) {
  if (deps.cache === undefined) return undefined;
  const hasAnswerEffects = guarded?.guard.hasAnswerEffects ?? false;
  const answered = { dialect, parsedRequest, record, target, place, hasAnswerEffects };
  return noteCached(outcome, answered, deps.cache);
}

function recordCompletion(
  { answer, received, attempt, plan }: Answered,
  { provider, model }: Target,
  { dialect, record, policy }: Admitted,
  status: number,
  responseId: string | undefined,
  bytes: Buffer | undefined,
): void {
  // A stored response already holds the client's answer in its own stream.
  const isRecorded = policy.capture === 'full' && responseId === undefined;
  const isDifferent = isRecorded && (plan.dialect !== dialect.name || plan.isGuarded === true);
  const json = isDifferent ? answer.writer.response?.()?.json : undefined;
  events.noteCompleted(record, received, {
    status,
    attempt,
    provider: provider.name,
    model: model || undefined,
    finishReason: answer.writer.finishReason ?? null,
    responseId,
    answer: json === undefined ? (plan.isGuarded && isRecorded ? bytes : undefined) : Buffer.from(json),
  });
}

function recordUsage(
  { answer: { reader }, received, plan }: Answered,
  target: Target,
  exchange: Admitted,
  { isWhole = false, estimate }: { readonly isWhole?: boolean; readonly estimate: EstimatedTokens | undefined },
): void {
  if (isMade(plan) || (received.chunks === 0 && estimate === undefined)) return;
  // Charged while it went on.
  if (plan.dialect === 'realtime') return;
  const work = reader.deferredWork?.();
  if (work !== undefined) {
    noteDeferral(exchange, target, work, reader);
    return;
  }
  if (exchange.dialect.mayBeFree && reader.usage().source === 'unknown' && estimate === undefined) return;
  noteSpending(exchange, target, reader, { isPartial: !isWhole, estimate });
}

/** @returns the id under which the response is stored; undefined when it is not */
function recordResponse({ answer, received, plan }: Answered, target: Target, exchange: Admitted): string | undefined {
  const stored = received.chunks === 0 ? undefined : answer.writer.response?.();
  if (stored === undefined) return undefined;
  // Whether the provider keeps the response, under an id that the provider chose.
  const isNative = plan.dialect === 'responses' && target.provider.capabilities.responseLifecycle === 'yes';
  return keepResponse(stored, target, isNative && !isMade(plan), exchange);
}

/**
 * Whether another owner has a response with this id. A provider that uses an id twice must not replace that response.
 */
async function isIdTaken({ answer }: Answered, target: Target, exchange: Admitted): Promise<boolean> {
  const { dialect, parsedRequest, record, deps } = exchange;
  const id = dialect.keeps?.(parsedRequest) === true ? answer.writer.response?.()?.id : undefined;
  const earlier = id === undefined ? undefined : await deps.archive.find(id, everything);
  if (earlier === undefined || isSameOwner(earlier, record.owner)) return false;
  deps.responseNotStored(target.provider);
  return true;
}

function finishStream(client: Client, status: number, headers: Record<string, string>, rest: readonly Buffer[]): void {
  if (!client.begun) client.begin(status, headers);
  for (const bytes of rest) client.write(bytes);
  client.end();
}

/** The end of an exchange whose answer was generated again from the record. */
type DeliveredReplay = Extract<DeliveredAnswer, { source: 'record' }>;

/** @returns the status that represents the end of the exchange. @throws LogUnavailable */
async function completeReplay(delivered: DeliveredReplay, exchange: RunningExchange): Promise<number> {
  const { answer, end, broken, rest, bytes } = delivered;
  const { record, client } = exchange;
  if (end === 'early') return completeEarly(bytes, exchange);
  if (broken === undefined) {
    const received = { chunks: 0, bytes, firstByteMs: undefined };
    events.noteCompleted(record, received, { status: 200, ...answer.attempt, finishReason: null });
  } else {
    events.noteFailed(record, broken, { status: 200, reason: 'stream_broken', chunks: 0 });
  }
  await record.flush('durable');
  const headers = replayHeaders(answer, exchange);
  if (!answer.stream) {
    client.answer(200, headers, rest ?? Buffer.alloc(0));
    return 200;
  }
  if (!client.begun) client.begin(200, headers);
  if (rest !== undefined) client.write(rest);
  client.end();
  return 200;
}

/** The client left, or the gateway stops. */
async function completeEarly(bytes: number, exchange: RunningExchange): Promise<number> {
  const { record, client } = exchange;
  if (client.ended.reason === 'client_gone') {
    events.noteDisconnected(record, { chunks: 0, bytes, firstByteMs: undefined });
    await record.flush('durable');
    return 499;
  }
  const refusal = gatewayStopping();
  const status = client.begun ? 200 : refusal.status;
  events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks: 0 });
  await record.flush('durable');
  return sendError(exchange, refusal);
}

// The end of an exchange that the gateway answered without a provider.

/** @returns the status of the answer. @throws LogUnavailable */
async function completeOwnAnswer({ given: answerFor, target }: OwnAnswer, exchange: Admitted): Promise<number> {
  const { dialect, record, request, client, parsedRequest, policy, guarded } = exchange;
  const guard = guarded?.guard;
  const historyReplayed = guarded?.merged !== undefined;
  const given = answerFor(pastAttempt({ parsedRequest, request, target, record, historyReplayed }));
  const { writer } = given.stream;
  const { stream } = parsedRequest;
  const bytes = bytesOfGiven(given, stream);
  const response = keepsResponse(exchange) ? writer.response?.() : undefined;
  const responseId = response && keepResponse(response, target, false, exchange);
  const { provider, model } = target;
  const by = { visibility: request.caller.visibility, placeholders: guard?.placeholders.added() };
  await noteConversationTurn(dialect, parsedRequest, writer, record, by);
  const keepsBodies = policy.capture === 'full';
  if (stream && keepsBodies) {
    record.note(frameDelivered.create({ attempt: NO_ATTEMPT, index: 0 }, record.context, bytes));
  }
  const received = { chunks: 0, bytes: 0, firstByteMs: undefined };
  events.noteCompleted(record, received, {
    ...{ status: 200, attempt: NO_ATTEMPT, provider: provider.name, model: model || undefined },
    finishReason: writer.finishReason ?? null,
    responseId,
    answer: stream || !keepsBodies || responseId !== undefined ? undefined : bytes,
  });
  await record.flush('durable');
  const reply = { status: 200, headers: { 'content-type': wholeContentType(parsedRequest) } };
  const headers = answerHeaders(exchange, target, reply);
  return sendWhole(client, parsedRequest, headers, bytes);
}
