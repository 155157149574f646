/** Under one idempotency key a provider's answer is completed once, however many gateways get the request. */
import { endsOf } from '../check-exchanges.ts';
import type { Conversation, Violation } from '../evidence.ts';
import { eventOf, type RecordedLog } from '../recorded-log.ts';

/** @param conversations of one round */
export function checkMadeOnce(conversations: readonly Conversation[], log: RecordedLog): Violation[] {
  const made = new Map<string, string[]>();
  for (const { request, answer } of conversations) {
    const { idempotencyKey: key, requestId } = request;
    if (key === undefined) continue;
    const [id] = requestId === undefined ? [answer.headers['x-exchange-id']] : (log.byRequestId.get(requestId) ?? []);
    const exchange = id === undefined ? undefined : log.exchanges.get(id);
    if (exchange === undefined || endsOf(exchange)[0]?.type !== 'exchange.completed') continue;
    if (eventOf(exchange, 'answer.replayed') !== undefined) continue;
    made.set(key, [...(made.get(key) ?? []), exchange.id]);
  }
  return [...made]
    .filter(([, exchanges]) => exchanges.length > 1)
    .map(([key, exchanges]) => ({
      check: 'made once',
      what: `the key ${key} was answered anew by ${exchanges.join(', ')}`,
    }));
}
