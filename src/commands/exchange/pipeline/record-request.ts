/**
 * The first events of an exchange. They are appended to the log before the exchange has any effect outside the
 * gateway.
 */
import { modelResolved, requestReceived } from '../../../events/catalogue/exchange.ts';
import type { Asked } from '../../model-request/parsed-request.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { Governed, Recorded } from './context.ts';
import type { RunningExchange } from './running-exchange.ts';
import type { Step } from './step.ts';

export const record: Step<Governed, Recorded> = {
  name: 'record',
  run(context) {
    const { exchange, asked, policy, isByModel } = context;
    if (exchange.resumed === undefined) noteReceived(exchange, asked, policy);
    if (isByModel) noteResolved(context);
    return { ...context, isRecorded: true };
  },
};

/**
 * Notes `request.received`, unless it is noted already. Refusals before the step `record` and answers from the record
 * note it themselves.
 * @param asked undefined for a body that was refused
 */
export function noteReceived(exchange: RunningExchange, asked: Asked | undefined, { capture }: ExchangePolicy): void {
  const { dialect, request, record } = exchange;
  if (record.isReceived) return;
  const { method, path, headers, clientIp, caller, labels, sessionId, body } = request;
  const facts = {
    dialect: dialect.name,
    method,
    path,
    headers,
    model: asked?.model || undefined,
    stream: asked?.stream ?? false,
    clientIp,
    authMethod: caller.authMethod,
    capture,
    labels,
    sessionId,
  };
  const isKept = capture === 'full' && (dialect.take === undefined || body.length > 0);
  record.noteReceived(requestReceived.create(facts, record.context, isKept ? body : undefined));
}

function noteResolved({ exchange, asked, route: { candidates, through } }: Governed): void {
  const [first] = candidates;
  if (first === undefined) return;
  const { provider, model } = first;
  const facts = { requested: asked.model, provider: provider.name, providerType: provider.type, model };
  const { record } = exchange;
  record.note(modelResolved.create(through.length === 0 ? facts : { ...facts, through }, record.context));
}
