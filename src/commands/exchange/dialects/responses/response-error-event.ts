/** The `error` event of a Responses stream: flat as OpenAI publishes it, nested as Open Responses does. */
import { DONE } from '../../../../providers/translate/responses-to-chat/response-events.ts';
import type { Refusal } from '../../../refusal.ts';

export function responseErrorEvent(sequenceNumber: number, refusal: Refusal, message = refusal.message): Buffer {
  const { type, code, param, provider } = refusal;
  const error = { type, code, message, param, ...(provider === undefined ? {} : { provider }) };
  return responseEvent({ type: 'error', sequence_number: sequenceNumber, code, message, param, error });
}

/**
 * The end of a stream whose response goes on at its provider. The event has the number of the last one that came, so
 * that a client that follows the response from there misses nothing.
 */
export function streamEndsEarly(lastNumber: number, refusal: Refusal): Buffer {
  const message = `${refusal.message} The provider goes on with the response: retrieve it by its id.`;
  return Buffer.concat([responseErrorEvent(Math.max(0, lastNumber), refusal, message), DONE]);
}

/** One whole server-sent event, with the name that its `type` gives it. */
export function responseEvent(event: Readonly<Record<string, unknown>>): Buffer {
  const { type } = event;
  const name = typeof type === 'string' ? `event: ${type}\n` : '';
  return Buffer.from(`${name}data: ${JSON.stringify(event)}\n\n`);
}
