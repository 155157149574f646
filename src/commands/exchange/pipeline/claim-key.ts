/** Looks up the request's idempotency key: returns the recorded answer, or the claim to make. */
import { lookUpKey } from '../record/idempotency-key.ts';
import type { KeyLookedUp, RequestParsed } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { noteReceived } from './record-request.ts';
import type { RunningExchange } from './running-exchange.ts';
import type { Step } from './step.ts';

export const claimKey: Step<RequestParsed, KeyLookedUp> = {
  name: 'claimKey',
  run(context, deps) {
    const { exchange } = context;
    if (!isKeyed(exchange, deps)) return { ...context, claim: undefined };
    return lookUpKey(keyedRequestOf(exchange), deps).then((found) => {
      if (!('source' in found)) return { ...context, claim: found };
      noteReceived(exchange, context.parsedRequest, deps.policyOf(exchange.request, undefined));
      return found;
    });
  },
};

/** Whether the key applies: only answers of the known dialects can be generated again from the record. */
function isKeyed({ dialect, request, resumed }: RunningExchange, { dialects }: ExchangeDependencies): boolean {
  return request.headers['idempotency-key'] !== undefined && resumed === undefined && dialects.has(dialect.name);
}

export function keyedRequestOf({ dialect, request, record, client }: RunningExchange) {
  return { endpoint: dialect.endpoint, request, record, ended: client.ended };
}
