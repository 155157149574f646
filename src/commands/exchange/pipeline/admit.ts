/** Reserves what the request may spend, under its limits and budgets, and claims its idempotency key. */
import type { Ticket } from '../../model-request/admission.ts';
import type { Answer } from '../answer-source.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { KeyClaim } from '../record/idempotency-key.ts';
import type { Admitted, Guarded } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { makeClaim } from './make-claim.ts';
import type { Step } from './step.ts';

export const admit: Step<Guarded, Admitted> = {
  name: 'admit',
  run(context, deps) {
    const { claim } = context;
    if (claim !== undefined) return admitUnderKey(context, claim, deps);
    const ticket = reserve(context, deps);
    return ticket instanceof Promise ? ticket.then((given) => ({ ...context, ticket: given })) : { ...context, ticket };
  },
};

/** @throws Refusal (429) */
function reserve(context: Guarded, deps: ExchangeDependencies): Ticket | Promise<Ticket> {
  const { record, scope } = context.exchange;
  const held = (ticket: Ticket): Ticket => {
    scope.atEnd((isRecorded) => ticket.settle(isRecorded, record.called));
    return ticket;
  };
  const ticket = ticketFor(context, deps);
  return ticket instanceof Promise ? ticket.then(held) : held(ticket);
}

/** Not yet released at the end of the exchange. @throws Refusal (429) */
export function ticketFor(
  { exchange, parsedRequest, policy, route, guarded }: Guarded,
  deps: ExchangeDependencies,
  { checksBudgets }: Pick<ExchangePolicy, 'checksBudgets'> = policy,
): Ticket | Promise<Ticket> {
  const { dialect, request, record } = exchange;
  const { caller, labels } = request;
  const admitted = {
    caller,
    labels,
    endpoint: dialect.endpoint,
    parsedRequest: guarded?.parsedRequest ?? parsedRequest,
    candidates: route.candidates,
    units: dialect.units?.(parsedRequest),
    bodyBytes: (guarded?.body ?? request.body).length,
    passed: dialect.passed,
    exchangeId: record.id,
    checksBudgets,
  };
  return deps.admission.admitWhenRoom(admitted, exchange.client.ended);
}

/**
 * Reserves before the key is claimed, so that a refused request leaves the key to the next. When another request
 * claims the key first, the client gets that request's answer.
 */
async function admitUnderKey(
  context: Guarded,
  claim: KeyClaim,
  deps: ExchangeDependencies,
): Promise<Admitted | Answer> {
  const { exchange } = context;
  let ticket: Ticket | undefined;
  const earlier = await makeClaim(exchange, claim, deps, {
    hold: async () => {
      ticket = await reserve(context, deps);
    },
    release: () => exchange.scope.end(false),
  });
  if (earlier !== undefined) return earlier;
  if (ticket === undefined) throw new Error('the key was claimed without a reservation');
  return { ...context, ticket };
}
