/** Reserves what the request may spend, under its limits and budgets, and claims its idempotency key. */
import { whenNewerEvent } from '../../../events/newest-event.ts';
import type { Ticket } from '../../model-request/admission.ts';
import type { Answer } from '../answer-source.ts';
import { type KeyClaim, lookUpKey, noAnswer } from '../record/idempotency-key.ts';
import { keyedRequestOf } from './claim-key.ts';
import type { Admitted, Guarded } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { Step } from './step.ts';

export const admit: Step<Guarded, Admitted> = {
  name: 'admit',
  run(context, deps) {
    const { claim } = context;
    return claim === undefined ? { ...context, ticket: reserve(context, deps) } : admitUnderKey(context, claim, deps);
  },
};

/** @throws Refusal (429) */
function reserve(context: Guarded, deps: ExchangeDependencies): Ticket {
  const { record, scope } = context.exchange;
  const ticket = ticketFor(context, deps);
  scope.atEnd((isRecorded) => ticket.settle(isRecorded, record.called));
  return ticket;
}

/** Not yet released at the end of the exchange. @throws Refusal (429) */
export function ticketFor(
  { exchange, parsedRequest, policy, route, guarded }: Guarded,
  deps: ExchangeDependencies,
): Ticket {
  const { dialect, request, record } = exchange;
  const { caller, labels } = request;
  const body = guarded?.body ?? request.body;
  return deps.admission.admit({
    caller,
    labels,
    endpoint: dialect.endpoint,
    parsedRequest: guarded?.parsedRequest ?? parsedRequest,
    candidates: route.candidates,
    units: dialect.units?.(parsedRequest),
    bodyBytes: body.length,
    exchangeId: record.id,
    checksBudgets: policy.checksBudgets,
  });
}

/**
 * Reserves before the key is claimed, so that a refused request leaves the key to the next. When another request
 * claims the key first, the client gets that request's answer.
 */
async function admitUnderKey(
  context: Guarded,
  first: KeyClaim,
  deps: ExchangeDependencies,
): Promise<Admitted | Answer> {
  const { exchange } = context;
  let claim = first;
  for (;;) {
    const ticket = reserve(context, deps);
    const { stream, event, expectedRevision } = claim;
    if (await exchange.record.flushIf({ stream, events: [event], expectedRevision })) {
      // A later request with the key gets the answer, also when this client does not wait for it.
      const detached = deps.detached.detach(exchange.client);
      exchange.client = detached;
      exchange.scope.atEnd(() => detached.over());
      return { ...context, ticket };
    }
    exchange.scope.end(false);
    // The other claim can be read once it is on disk.
    const from = expectedRevision === 'noStream' ? undefined : expectedRevision;
    await whenNewerEvent(stream, from, deps.log, exchange.client.ended);
    if (exchange.client.ended.aborted) return noAnswer;
    const found = await lookUpKey(keyedRequestOf(exchange), deps);
    if ('source' in found) return found;
    claim = found;
  }
}
