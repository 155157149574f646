/**
 * What is recorded of a request that the gateway itself refused: the caller, the kind of request, and the beginning
 * of its content. A key that is over its limit, or may not use the model, must not be able to fill the log. Pure.
 */
import { createHash } from 'node:crypto';
import { requestPartReceived, requestReceived, requestRefused } from '../../../events/catalogue/exchange.ts';
import type { NewEvent } from '../../../events/event.ts';
import type { Refusal } from '../../refusal.ts';

/** Limit for the body, or for all text fields of a form together. */
export const KEPT_BODY_BYTES = 4096;
/** Limit for the model's name and for the error's message, which may repeat that name. */
const KEPT_TEXT_LENGTH = 1024;

/** Whether the request is at fault: its access, a limit, a budget, or its content. */
export function isOfRequest({ status }: Pick<Refusal, 'status'>): boolean {
  return status < 500 || status === 501;
}

/**
 * The events of a refused request, with their content cut. The size and SHA-256 of a cut body are recorded beside it.
 */
export function cutContent(events: readonly NewEvent[]): NewEvent[] {
  let room = KEPT_BODY_BYTES;
  return events.map((event) => {
    if (event.type === requestReceived.type) return cutReceived(event);
    if (event.type === requestRefused.type) return withText(event, 'message');
    if (event.type !== requestPartReceived.type) return withText(event, 'requested');
    const value: unknown = Reflect.get(event.data, 'value');
    if (typeof value !== 'string') return event;
    const bytes = Buffer.from(value);
    const kept = Math.min(room, bytes.length);
    room -= kept;
    if (kept === bytes.length) return event;
    const cut = { value: bytes.subarray(0, kept).toString(), sha256: sha256(bytes) };
    return { ...event, data: { ...event.data, ...cut } };
  });
}

function cutReceived(event: NewEvent): NewEvent {
  const { body } = event;
  const short = withText(event, 'model');
  if (body === undefined || body.length <= KEPT_BODY_BYTES) return short;
  const data = { ...short.data, bodyBytes: body.length, bodySha256: sha256(body) };
  return { ...short, data, body: body.subarray(0, KEPT_BODY_BYTES) };
}

function withText(event: NewEvent, name: string): NewEvent {
  const text: unknown = Reflect.get(event.data, name);
  if (typeof text !== 'string' || text.length <= KEPT_TEXT_LENGTH) return event;
  return { ...event, data: { ...event.data, [name]: text.slice(0, KEPT_TEXT_LENGTH) } };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
