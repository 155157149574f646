/** The body of the request, parsed once. */
import { modelResolved } from '../../../events/catalogue/exchange.ts';
import type { ReadResult } from '../../model-request/parsed-request.ts';
import { readJson } from '../../model-request/read-json.ts';
import { limitsRefusal } from '../../request-limits.ts';
import type { Arrived, RequestParsed } from './context.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import { noteReceived } from './record-request.ts';
import type { RunningExchange } from './running-exchange.ts';
import type { Step } from './step.ts';

export const receive: Step<Arrived, RequestParsed> = {
  name: 'receive',
  run({ exchange }, deps) {
    const { dialect, request, resumed } = exchange;
    if (resumed !== undefined) {
      if (resumed.refused !== undefined) throw resumed.refused;
      return { exchange, parsedRequest: resumed.parsedRequest };
    }
    const read = dialect.take === undefined ? readJson(dialect, request.body) : dialect.take(request);
    return read instanceof Promise
      ? read.then((parsed) => received(exchange, parsed, deps))
      : received(exchange, read, deps);
  },
};

/** @throws Refusal for a body that is malformed, or whose values are out of range */
function received(exchange: RunningExchange, read: ReadResult, deps: ExchangeDependencies): RequestParsed {
  const { dialect, request } = exchange;
  if (!read.ok) {
    if (read.known !== undefined) {
      const { parsedRequest: refused, provider } = read.known;
      noteReceived(exchange, refused, deps.policyOf(request, undefined));
      if (provider !== undefined) {
        const facts = {
          requested: refused.model,
          model: refused.model,
          provider: provider.name,
          providerType: provider.type,
        };
        exchange.record.note(modelResolved.create(facts, exchange.record.context));
      }
    }
    throw read.refusal;
  }
  const { parsedRequest } = read;
  request.sessionId ??= deps.sessions?.inBody(parsedRequest.json, request.caller.userPath);
  // Values of a passthrough request are checked by its provider.
  const refusal = dialect.name === 'passthrough' ? undefined : limitsRefusal(dialect.endpoint, parsedRequest.json);
  if (refusal !== undefined) {
    noteReceived(exchange, parsedRequest, deps.policyOf(request, undefined));
    throw refusal;
  }
  return { exchange, parsedRequest };
}
