/**
 * Records the refusal of a request that began no exchange: refused by its route, for its body, or by its handler. The
 * refusal is recorded on its own, or counted once its key has exceeded the limit of single records.
 */
import { requestReceived, requestRefused } from '../../../events/catalogue/exchange.ts';
import { streamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { Refusal } from '../../refusal.ts';
import { cutContent, isOfRequest } from './refused-content.ts';
import type { RefusedRequests } from './refused-requests.ts';

export interface RefusalRecording {
  readonly log: Pick<EventLog, 'append'>;
  readonly refused: Pick<RefusedRequests, 'recordsAlone' | 'count'>;
  newId(): string;
}

/**
 * Requests over a rate limit, and those that the gateway failed to handle, are always counted: neither may wait for
 * the log. If the log cannot be written, the request is counted as well, and the count is recorded when the log can
 * be written again.
 * @returns the id of the recorded exchange; undefined when the request was counted
 */
export async function recordRefusal(
  request: ModelRequest,
  endpoint: string,
  durationMs: number,
  refusal: Refusal,
  { log, refused, newId }: RefusalRecording,
): Promise<string | undefined> {
  const { caller } = request;
  const counted = { caller, endpoint, durationMs };
  if (refusal.status === 429 || !isOfRequest(refusal)) {
    refused.count(counted, refusal);
    return undefined;
  }
  if (!refused.recordsAlone(counted, refusal)) return undefined;
  const id = newId();
  const events = cutContent(eventsOf(request, durationMs, refusal));
  try {
    await log.append([{ stream: streamName('exchange', id), events, expectedRevision: 'noStream' }]);
    return id;
  } catch {
    refused.count(counted, refusal);
    return undefined;
  }
}

/** Without the body: the body of an administrator's request may hold secrets that cannot be located in it. */
function eventsOf(request: ModelRequest, durationMs: number, refusal: Refusal) {
  const { caller, requestId, traceparent, method, path, headers, clientIp, labels, sessionId } = request;
  const { authMethod } = caller;
  const context = { actor: caller.actor, userPath: caller.userPath, requestId, traceparent };
  const { status, type, code, param } = refusal;
  // The message quotes a part of the body.
  const message = code === 'invalid_json' ? 'The request body is not valid JSON.' : refusal.message;
  const facts = { method, path, headers, clientIp, authMethod, labels, sessionId };
  return [
    requestReceived.create({ dialect: 'none', stream: false, capture: 'metadata', ...facts }, context),
    requestRefused.create({ status, type, code, param, message, durationMs }, context),
  ];
}
