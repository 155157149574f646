/** The `error` event of a Responses stream: flat as in OpenAI's API, nested as in Open Responses. */
import { failureForClients } from '../../../../providers/translate/chat-to-responses/failure.ts';
import { DONE } from '../../../../providers/translate/chat-to-responses/response-events.ts';
import type { Refusal } from '../../../refusal.ts';

/** The code is never null: without one of its own, an error has that of its type, as in translated streams. */
export function responseErrorEvent(sequenceNumber: number, refusal: Refusal, note = ''): Buffer {
  const { type, param, provider } = refusal;
  const { code, message: reason } = failureForClients(refusal);
  const message = `${reason}${note}`;
  const error = { type, code, message, param, ...(provider === undefined ? {} : { provider }) };
  return responseEvent({ type: 'error', sequence_number: sequenceNumber, code, message, param, error });
}

/**
 * The end of a stream whose response continues at its provider. The event carries the sequence number of the last
 * event sent, so that a client that resumes from there misses nothing.
 */
export function streamEndsEarly(lastNumber: number, refusal: Refusal): Buffer {
  const note = ' The provider continues the response: retrieve it by its id.';
  return Buffer.concat([responseErrorEvent(Math.max(0, lastNumber), refusal, note), DONE]);
}

/** One whole server-sent event, named by its `type`. */
export function responseEvent(event: Readonly<Record<string, unknown>>): Buffer {
  const { type } = event;
  const name = typeof type === 'string' ? `event: ${type}\n` : '';
  return Buffer.from(`${name}data: ${JSON.stringify(event)}\n\n`);
}
