/** Runs one model request through the steps of the pipeline, and after a restart a background response. */

import { exchangeResumed } from '../../../events/catalogue/exchange.ts';
import { EventTooLarge, LogUnavailable } from '../../../events/log.ts';
import type { Client, ModelRequest } from '../../model-request/model-request.ts';
import { responseCancelled } from '../../model-request/upstream-refusals.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { responseIdOf } from '../../responses/create-request.ts';
import { isPending } from '../../responses/storable-response.ts';
import { everything } from '../../visibility.ts';
import type { DeliveredAnswer } from '../answer-source.ts';
import {
  inProgressWrite,
  noteOutcome,
  type PendingResponse,
  type ResumableExchange,
  storedPendingResponse,
} from '../background/background-response.ts';
import type { ExchangeDialect } from '../dialect.ts';
import { ExchangeRecord } from '../exchange-record.ts';
import { isMade } from '../plan.ts';
import * as events from '../record/end-events.ts';
import { isOfRequest } from '../record/end-events.ts';
import { noteReceived } from './admit.ts';
import { complete } from './complete.ts';
import { deliver, sendError } from './deliver.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { RunningExchange } from './running-exchange.ts';
import { answerTo } from './steps.ts';

/** Never rejects: in every case the client gets an answer or an error, and the end of the exchange is recorded. */
export function runExchange(
  dialect: ExchangeDialect,
  request: ModelRequest,
  client: Client,
  deps: ExchangeDependencies,
): Promise<void> {
  const { caller, requestId, causationId } = request;
  const id = deps.newId();
  const trace = deps.trace?.(request, id);
  const traceparent = trace?.traceparent ?? request.traceparent;
  const context = { actor: caller.actor, userPath: caller.userPath, requestId, causationId, traceparent };
  const record = new ExchangeRecord(deps.log, id, context);
  record.trace = trace;
  deps.open.begun(record.stream);
  return runPipeline(new RunningExchange(deps, { dialect, request, record, client }));
}

/** Never rejects. */
async function runPipeline(exchange: RunningExchange): Promise<void> {
  const { record, deps } = exchange;
  let delivered: DeliveredAnswer | undefined;
  let isRecorded = false;
  let status: number;
  try {
    delivered = await deliver(await answerTo(exchange), exchange);
    status = await complete(delivered, exchange);
    isRecorded = true;
  } catch (error) {
    if (delivered !== undefined && error instanceof LogUnavailable) notStored(delivered, exchange);
    status = await refuseExchange(exchange, error);
  }
  exchange.release(isRecorded);
  deps.open.over(record.stream);
  if (exchange.pendingResponse !== undefined) deps.detached.over(exchange.pendingResponse.id);
  deps.ended(summaryOf(exchange, delivered, status));
}

/** An answer was received and its end cannot be recorded. */
function notStored(delivered: DeliveredAnswer, { dialect, parsedRequest, deps }: RunningExchange): void {
  if (delivered.source !== 'provider' || parsedRequest === undefined) return;
  if (dialect.keeps?.(parsedRequest)) deps.responseNotStored(delivered.answer.target.provider);
}

function summaryOf(exchange: RunningExchange, delivered: DeliveredAnswer | undefined, status: number) {
  const { dialect, record, request, parsedRequest, target, hasMissedCache, cachePlace } = exchange;
  const outcome = delivered?.source === 'provider' ? delivered.outcome : undefined;
  const hit = delivered?.source === 'cache' ? delivered.answer : undefined;
  const answered = outcome === undefined || outcome.kind === 'refused' ? undefined : outcome;
  return {
    exchangeId: record.id,
    requestId: request.requestId,
    userPath: request.caller.userPath ?? '/',
    labels: request.labels ?? [],
    cost: Number.isNaN(record.cost) ? undefined : record.cost,
    endpoint: dialect.endpoint,
    provider: (target ?? hit?.target)?.provider.name,
    model: (target ?? hit?.target)?.model || undefined,
    status,
    stream: parsedRequest?.stream ?? false,
    durationMs: record.elapsed(),
    firstByteMs: answered?.received.firstByteMs,
    // That of a response whose tools the gateway runs is in the exchanges that call the model.
    usage: answered === undefined || isMade(answered.plan) ? undefined : answered.answer.reader.usage(),
    cache: hit?.cacheType ?? (hasMissedCache ? ('miss' as const) : undefined),
    isStored: cachePlace?.isKept === true,
  };
}

// The end of an exchange that a step refused, or that failed for a reason other than a provider.

/** @returns the status of the error */
async function refuseExchange(exchange: RunningExchange, error: unknown): Promise<number> {
  const { dialect, record, request, client, pendingResponse, deps } = exchange;
  const { maxEventBytes } = deps.log.capabilities;
  const usage = error instanceof EventTooLarge ? record.withdraw(maxEventBytes / 2) : [];
  const refusal = refusalOf(error, exchange, maxEventBytes);
  if (refusal.type === 'internal_error' && refusal.status === 500) deps.failed(error);
  noteReceived(exchange, deps.policyOf(request, undefined));
  if (!record.flushed && isOfRequest(refusal)) {
    const refused = { caller: request.caller, endpoint: dialect.endpoint, durationMs: record.elapsed() };
    if (!deps.refused.recordsAlone(refused, refusal)) {
      client.refuse(refusal, { 'x-request-id': request.requestId });
      return refusal.status;
    }
  }
  const { reason } = client.ended;
  // A pending response that the stop of the gateway interrupts is generated after the next start.
  const isLogUnavailable = refusal.code === 'log_unavailable';
  const isForNextStart = pendingResponse !== undefined && reason === 'gateway_stopping' && !isLogUnavailable;
  // A resumed exchange has no client: its first one has got the queued response.
  const wasRefused = exchange.resumed === undefined && !client.begun;
  if (isLogUnavailable || isForNextStart) {
    if (record.flushed) deps.open.leftOpen(record.stream, { wasRefused: wasRefused && !isForNextStart });
    return sendError(exchange, refusal);
  }
  if (!record.flushed || error instanceof Refusal || refusal.status === 413) events.noteRefused(record, refusal);
  else events.noteFailed(record, refusal, { status: refusal.status, reason: 'internal_error', chunks: 0 });
  for (const event of usage) record.note(event);
  if (pendingResponse !== undefined) {
    noteOutcome(pendingResponse, reason === 'cancelled' ? 'cancelled' : 'failed', refusal, undefined);
  }
  try {
    await record.flush('durable');
  } catch (lost) {
    deps.open.leftOpen(record.stream, { wasRefused });
    return sendError(exchange, refusalOf(lost, exchange, maxEventBytes));
  }
  return sendError(exchange, refusal);
}

function refusalOf(
  error: unknown,
  { record: { called }, pendingResponse }: RunningExchange,
  maxEventBytes: number,
): Refusal {
  if (error instanceof Refusal) return error;
  // The step `complete` ends an answer that is too large.
  if (error instanceof EventTooLarge) {
    return refusals.inputNotRecordable('The request, as it would be sent, is too large to be recorded', maxEventBytes);
  }
  // The gateway recurses only over a client's input.
  if (error instanceof RangeError && error.message.includes('call stack')) return refusals.nestedTooDeeply();
  if (!(error instanceof LogUnavailable)) return refusals.internal(error);
  // A background response that is on record is taken over when the lease of this gateway ends.
  if (pendingResponse !== undefined && (pendingResponse.isAnnounced || error.outcome === 'unknown')) {
    return refusals.backgroundNotConfirmed(pendingResponse.id, error);
  }
  return called ? refusals.answerNotRecorded(error) : refusals.logUnavailable(error);
}

// After a restart: generates a background response of which no chunk was recorded. It can be cancelled or deleted at
// any time, also before its provider is known to be available.

/** Never rejects. */
export async function resumeExchange(resumable: ResumableExchange, deps: ExchangeDependencies): Promise<void> {
  const { record, resumed, recordedAfter } = resumable;
  deps.open.begun(record.stream, recordedAfter);
  const id = responseIdOf(record.id);
  const client = deps.detached.detach(resumable.client, id);
  try {
    record.note(exchangeResumed.create({ attempts: resumed.attempts }, record.context));
    const pending = await takeOver(id, resumable, deps);
    if (pending !== undefined) {
      record.trace = deps.trace?.(resumable.request, record.id);
      const exchange = new RunningExchange(deps, { ...resumable, client }, resumed);
      exchange.pendingResponse = pending;
      return await runPipeline(exchange);
    }
    events.noteFailed(record, responseCancelled(), { status: 0, reason: 'cancelled', chunks: 0 });
    await record.flush('durable');
  } catch (error) {
    if (error instanceof LogUnavailable) deps.open.leftOpen(record.stream);
    else deps.failed(error);
  }
  deps.open.over(record.stream);
  deps.detached.over(id);
}

/**
 * Records the new state of the pending response and returns it; undefined when the response has ended already.
 * @throws LogUnavailable
 */
async function takeOver(
  id: string,
  { record }: ResumableExchange,
  deps: ExchangeDependencies,
): Promise<PendingResponse | undefined> {
  const stored = await deps.archive.find(id, everything);
  if (stored === undefined || !isPending(stored)) return undefined;
  const pending = storedPendingResponse(stored, record);
  return (await record.flushIf(inProgressWrite(pending, stored))) ? pending : undefined;
}
