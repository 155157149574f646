/** The last step: records the end of the exchange durably, then sends the rest of the answer to the client. */

import { frameDelivered } from '../../../events/catalogue/guardrail.ts';
import { type EventLog, EventTooLarge } from '../../../events/log.ts';
import type { Provider, ProviderReply } from '../../../providers/provider.ts';
import type { Client } from '../../model-request/model-request.ts';
import type { RefusedTarget, Target } from '../../model-request/routing-types.ts';
import { answerNotRecordable, gatewayStopping, responseCancelled } from '../../model-request/upstream-refusals.ts';
import type { EstimatedTokens } from '../../model-request/usage.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { previousResponseOf } from '../../responses/create-request.ts';
import { everything, isSameOwner } from '../../visibility.ts';
import type { DeliveredAnswer, OwnAnswer } from '../answer-source.ts';
import { noteOutcome, type PendingResponse } from '../background/background-response.ts';
import type { OpenExchangeTracker } from '../background/open-exchange-tracker.ts';
import type { ResponseCache } from '../caching/response-cache.ts';
import { type CachePlace, noteCached } from '../caching/store-answer.ts';
import { answerHeaders } from '../delivery/answer-headers.ts';
import type { ExchangeGuard } from '../guarding/exchange-guard.ts';
import { pastAttempt } from '../guarding/guarded-stream.ts';
import type { Answered, AttemptEnd } from '../plan.ts';
import * as events from '../record/end-events.ts';
import { noteConversationTurn } from '../record/end-events.ts';
import { estimateUsage, noteDeferral, noteSpending, type Spender } from '../record/spending.ts';
import { bytesOfGiven } from '../response-stream.ts';
import { completeCachedAnswer, NO_ATTEMPT, replayHeaders, sendError, sendWhole, wholeContentType } from './deliver.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { RunningExchange } from './running-exchange.ts';

interface Completing extends Spender {
  readonly guard: ExchangeGuard | undefined;
  readonly target: Target;
  readonly client: Client;
  /** Whether the answer is recorded with its bytes. */
  readonly keepBodies: boolean;
  readonly pendingResponse: PendingResponse | undefined;
  readonly open: Pick<OpenExchangeTracker, 'leftOpen'>;
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  readonly hasMissedCache: boolean;
  readonly cachePlace: CachePlace | undefined;
  readonly cache: ResponseCache | undefined;
  /** Called for a response that was generated and could not be stored. */
  responseNotStored(provider: Provider): void;
}

export const complete = {
  name: 'complete',
  /** @returns the status that represents the end of the exchange. @throws LogUnavailable */
  run(delivered: DeliveredAnswer, exchange: RunningExchange, deps: ExchangeDependencies): Promise<number> {
    if (delivered.source === 'record') return completeReplay(delivered, exchange);
    if (delivered.source === 'gateway') return completeOwnAnswer(delivered.answer, exchange);
    if (delivered.source === 'cache') return completeCachedAnswer(delivered.answer, exchange);
    const { answer, outcome } = delivered;
    const { dialect, record, request, client, pendingResponse, guarded, hasMissedCache, cachePlace } = exchange;
    const { target, parsedRequest, policy, ticket } = answer;
    const { pricing, open, archive, log, responseNotStored, cache } = deps;
    const keepBodies = policy.capture === 'full';
    const { recordsUsage } = policy;
    const spender = { dialect, parsedRequest, record, request, ticket, pricing, recordsUsage };
    const given = {
      ...spender,
      guard: guarded?.guard,
      target,
      client,
      keepBodies,
      pendingResponse,
      open,
      archive,
      log,
      responseNotStored,
      hasMissedCache,
      cachePlace,
      cache,
    };
    if (outcome.kind === 'refused') return completeRefused(outcome, given);
    return completeAnswered(outcome, given).catch((error) => {
      if (!(error instanceof EventTooLarge)) throw error;
      return completeUnrecordable(outcome, given);
    });
  },
};

async function completeRefused(refused: RefusedTarget, exchange: Completing): Promise<number> {
  const { record } = exchange;
  const { refusal, reason = 'provider_error' } = refused;
  const wasCalled = refused.attempts > 0 && !(reason === 'budget_exceeded' && !record.called);
  if (!wasCalled) events.noteRefused(record, refusal);
  else events.noteFailed(record, refusal, { status: refusal.status, reason, chunks: 0 });
  if (exchange.pendingResponse !== undefined) noteOutcome(exchange.pendingResponse, 'failed', refusal, undefined);
  await record.flush('durable');
  return sendError(exchange, refusal);
}

async function completeAnswered(outcome: AttemptEnd, exchange: Completing): Promise<number> {
  const { record, client } = exchange;
  const { chunks } = outcome.received;
  const estimate = await estimateUsage(outcome, exchange);
  if (outcome.kind === 'abandoned' && exchange.pendingResponse !== undefined) {
    return completeInterrupted(outcome, exchange, exchange.pendingResponse, estimate);
  }
  const isForeign =
    outcome.kind !== 'blocked' && outcome.plan.dialect === 'responses' && (await isIdTaken(outcome, exchange));
  const responseId = isForeign || outcome.kind === 'blocked' ? undefined : recordResponse(outcome, exchange);
  if (outcome.kind === 'whole' || outcome.kind === 'streamed') {
    const { dialect, parsedRequest, request } = exchange;
    const placeholders = exchange.guard?.placeholders.added();
    await noteConversationTurn(dialect, parsedRequest, outcome.answer.writer, record, {
      sight: request.caller.sight,
      placeholders,
    });
  }
  switch (outcome.kind) {
    case 'whole': {
      const cached = offerAnswer(outcome, exchange);
      recordCompletion(outcome, exchange, outcome.reply, responseId, { bytes: outcome.bytes, estimate });
      const appended = await record.flush('durable');
      cached?.(appended);
      client.answer(outcome.reply.status, answerHeaders(exchange, outcome.reply), outcome.bytes);
      return outcome.reply.status;
    }
    case 'streamed': {
      const cached = offerAnswer(outcome, exchange);
      recordCompletion(outcome, exchange, outcome.reply, responseId, { estimate });
      const appended = await record.flush('durable');
      cached?.(appended);
      finishStream(client, outcome.reply.status, answerHeaders(exchange, outcome.reply), outcome.rest);
      return outcome.reply.status;
    }
    case 'broken': {
      const { refusal } = outcome;
      events.noteFailed(record, refusal, { status: 200, reason: 'stream_broken', chunks, responseId });
      recordUsage(outcome, exchange, { estimate });
      await record.flush('durable');
      if (outcome.cut) return sendError(exchange, refusal);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
    case 'blocked': {
      const { refusal, isWhole } = outcome;
      const { pendingResponse } = exchange;
      const failedId = pendingResponse && noteOutcome(pendingResponse, 'failed', refusal, undefined);
      events.noteFailed(record, refusal, {
        status: refusal.status,
        reason: 'guardrail',
        chunks,
        responseId: failedId,
      });
      recordUsage(outcome, exchange, { isWhole, estimate });
      await record.flush('durable');
      return sendError(exchange, refusal);
    }
    case 'abandoned': {
      if (client.ended.reason !== 'gateway_stopping') {
        events.noteDisconnected(record, outcome.received, responseId);
        recordUsage(outcome, exchange, { estimate });
        await record.flush('durable');
        return 499;
      }
      const refusal = gatewayStopping();
      const status = client.begun ? 200 : refusal.status;
      events.noteFailed(record, refusal, { status, reason: 'gateway_stopped', chunks, responseId });
      recordUsage(outcome, exchange, { estimate });
      await record.flush('durable');
      if (!client.begun || outcome.cut) return sendError(exchange, refusal);
      finishStream(client, 200, {}, outcome.rest);
      return refusal.status;
    }
  }
}

/** Ends an exchange whose answer the log does not accept: without what was to be stored, and charged. */
async function completeUnrecordable({ plan, attempt, received }: Answered, exchange: Completing): Promise<number> {
  const { record, client, target, log, pendingResponse } = exchange;
  const { maxEventBytes } = log.capabilities;
  const refusal = answerNotRecordable(target.provider.name, maxEventBytes);
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
  exchange.responseNotStored(target.provider);
  await record.flush('durable');
  // A new stream: this one has ended, without the error.
  const last = begun ? plan.newStream(attempt).unguarded.broken(refusal) : undefined;
  if (last === undefined) return sendError(exchange, refusal);
  finishStream(client, 200, {}, [last]);
  return refusal.status;
}

/**
 * Ends a background response that was cancelled, or that the stop of the gateway interrupted. In the latter case, a
 * response without any chunk is generated after the next start.
 */
async function completeInterrupted(
  { answer, received, rest, attempt, plan }: Extract<AttemptEnd, { kind: 'abandoned' }>,
  exchange: Completing,
  pending: PendingResponse,
  estimate: EstimatedTokens | undefined,
): Promise<number> {
  const { record, client } = exchange;
  const { chunks } = received;
  const cancelled = client.ended.reason === 'cancelled';
  const refusal = cancelled ? responseCancelled() : gatewayStopping();
  if (!cancelled && chunks === 0) {
    await record.flush('durable');
    exchange.open.leftOpen(record.stream);
    return sendError(exchange, refusal);
  }
  const response = chunks > 0 ? answer.writer.response?.() : undefined;
  const responseId = noteOutcome(pending, cancelled ? 'cancelled' : 'failed', refusal, response);
  const reason = cancelled ? 'cancelled' : 'gateway_stopped';
  const status = client.begun ? 200 : refusal.status;
  events.noteFailed(record, refusal, { status, reason, chunks, responseId });
  recordUsage({ answer, received, attempt, plan }, exchange, { estimate });
  await record.flush('durable');
  if (!client.begun) return sendError(exchange, refusal);
  finishStream(client, 200, {}, rest);
  return refusal.status;
}

function offerAnswer(outcome: Extract<AttemptEnd, { kind: 'whole' | 'streamed' }>, exchange: Completing) {
  const { cachePlace: place, cache, guard } = exchange;
  if (place === undefined || cache === undefined) return undefined;
  return noteCached(outcome, { ...exchange, place, hasAnswerEffects: guard?.hasAnswerEffects ?? false }, cache);
}

function recordCompletion(
  { answer, received, attempt, plan }: Answered,
  exchange: Completing,
  reply: ProviderReply,
  responseId: string | undefined,
  { bytes, estimate }: { readonly bytes?: Buffer; readonly estimate?: EstimatedTokens | undefined },
): void {
  const { dialect, target, record, keepBodies } = exchange;
  const translated = plan.dialect !== dialect.name;
  // A stored response already holds the client's answer in its own stream.
  const isDifferent = translated || plan.isGuarded === true;
  const json = isDifferent && keepBodies && responseId === undefined ? answer.writer.response?.()?.json : undefined;
  const ofGuardrails = plan.isGuarded && keepBodies && responseId === undefined ? bytes : undefined;
  events.noteCompleted(record, received, {
    status: reply.status,
    attempt,
    provider: target.provider.name,
    model: target.model || undefined,
    finishReason: answer.writer.finishReason ?? null,
    responseId,
    answer: json === undefined ? ofGuardrails : Buffer.from(json),
  });
  recordUsage({ answer, received, attempt, plan }, exchange, { isWhole: true, estimate });
}

function recordUsage(
  { answer: { reader }, received }: Answered,
  exchange: Completing,
  { isWhole = false, estimate }: { readonly isWhole?: boolean; readonly estimate: EstimatedTokens | undefined },
): void {
  if (received.chunks === 0 && estimate === undefined) return;
  const work = reader.deferredWork?.();
  if (work !== undefined) {
    noteDeferral(exchange, exchange.target, work, reader);
    return;
  }
  const usage = reader.usage();
  if (exchange.dialect.mayBeFree && usage.source === 'unknown' && estimate === undefined) return;
  noteSpending(exchange, exchange.target, reader, { isPartial: !isWhole, estimate });
}

/** @returns the id under which the response is stored; undefined when it is not */
function recordResponse({ answer, received, plan }: Answered, exchange: Completing): string | undefined {
  const { dialect, parsedRequest, target, record } = exchange;
  if (received.chunks === 0 || dialect.keeps?.(parsedRequest) !== true) return undefined;
  const stored = answer.writer.response?.();
  if (stored === undefined) return undefined;
  const { provider, model } = target;
  events.noteResponse(record, stored, {
    provider: provider.name,
    providerType: provider.type,
    model,
    native: isProvidersOwn({ plan }, exchange),
    previousResponseId: previousResponseOf(parsedRequest),
    inputItems: dialect.inputItems?.(parsedRequest, stored.id) ?? '[]',
    placeholders: exchange.guard?.placeholders.recorded(),
  });
  return stored.id;
}

/** Whether the provider keeps the response, under an id that the provider chose. */
function isProvidersOwn({ plan }: Pick<Answered, 'plan'>, { target }: Completing): boolean {
  return plan.dialect === 'responses' && target.provider.capabilities.responseLifecycle === 'yes';
}

/**
 * Whether another owner has a response with this id. A provider that uses an id twice must not replace that response.
 */
async function isIdTaken({ answer }: Answered, exchange: Completing): Promise<boolean> {
  const { dialect, parsedRequest, record, archive } = exchange;
  const id = dialect.keeps?.(parsedRequest) === true ? answer.writer.response?.()?.id : undefined;
  const earlier = id === undefined ? undefined : await archive.find(id, everything);
  if (earlier === undefined || isSameOwner(earlier, record.owner)) return false;
  exchange.responseNotStored(exchange.target.provider);
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
async function completeOwnAnswer(
  { given: answerFor, target, parsedRequest, policy, ticket }: OwnAnswer,
  { dialect, record, request, client, guarded }: RunningExchange,
): Promise<number> {
  const guard = guarded?.guard;
  const historyReplayed = guarded?.merged !== undefined;
  const given = answerFor(pastAttempt({ parsedRequest, request, target, record, historyReplayed }));
  const { writer } = given.stream;
  const { stream } = parsedRequest;
  const bytes = bytesOfGiven(given, stream);
  const stored = dialect.keeps?.(parsedRequest) === true ? writer.response?.() : undefined;
  const placeholders = guard?.placeholders.recorded();
  const { provider, model } = target;
  if (stored !== undefined) {
    events.noteResponse(record, stored, {
      ...{ provider: provider.name, providerType: provider.type, model, native: false, placeholders },
      previousResponseId: previousResponseOf(parsedRequest),
      inputItems: dialect.inputItems?.(parsedRequest, stored.id) ?? '[]',
    });
  }
  const by = { sight: request.caller.sight, placeholders: guard?.placeholders.added() };
  await noteConversationTurn(dialect, parsedRequest, writer, record, by);
  const keepsBodies = policy.capture === 'full';
  if (stream && keepsBodies) {
    record.note(frameDelivered.create({ attempt: NO_ATTEMPT, index: 0 }, record.context, bytes));
  }
  const received = { chunks: 0, bytes: 0, firstByteMs: undefined };
  events.noteCompleted(record, received, {
    ...{ status: 200, attempt: NO_ATTEMPT, provider: provider.name, model: model || undefined },
    finishReason: writer.finishReason ?? null,
    responseId: stored?.id,
    answer: stream || !keepsBodies || stored !== undefined ? undefined : bytes,
  });
  await record.flush('durable');
  const reply = { status: 200, headers: { 'content-type': wholeContentType(parsedRequest) } };
  const headers = answerHeaders({ dialect, parsedRequest, target, record, request, ticket, guard }, reply);
  return sendWhole(client, parsedRequest, headers, bytes);
}
