/** The end of an exchange that a step refused, or that failed for a reason other than a provider. */
import { EventTooLarge, LogUnavailable } from '../../../events/log.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import { Refusal, refusals } from '../../refusal.ts';
import { noteOutcome } from '../background/announce-pending-response.ts';
import * as events from '../record/end-events.ts';
import { isOfRequest } from '../record/refused-content.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { noteReceived } from './record-request.ts';
import type { RunningExchange } from './running-exchange.ts';
import { sendError } from './send-error.ts';

/**
 * @param parsedRequest the parsed request; undefined when there is none
 * @returns the status of the error
 */
export async function refuseExchange(
  exchange: RunningExchange,
  error: unknown,
  parsedRequest: ParsedRequest | undefined,
  deps: ExchangeDependencies,
): Promise<number> {
  const { dialect, record, request, client, pendingResponse } = exchange;
  const { maxEventBytes } = deps.log.capabilities;
  const usage = error instanceof EventTooLarge ? record.withdraw(maxEventBytes / 2) : [];
  const refusal = refusalOf(error, exchange, maxEventBytes);
  if (refusal.type === 'internal_error' && refusal.status === 500) deps.failed(error);
  noteReceived(exchange, parsedRequest, deps.policyOf(request, undefined));
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
