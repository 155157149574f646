/**
 * The first events of an exchange. They are appended to the log before the exchange has any effect outside the
 * gateway.
 */
import { modelResolved, requestReceived } from '../../../events/catalogue/exchange.ts';
import { pluginApplied } from '../../../events/catalogue/plugin.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import { refusals } from '../../refusal.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { Governed, Recorded } from './context.ts';
import type { RunningExchange } from './running-exchange.ts';
import type { Step } from './step.ts';

export const record: Step<Governed, Recorded> = {
  name: 'record',
  run(context, { log }) {
    const { exchange, parsedRequest, policy, isByModel } = context;
    if (exchange.resumed === undefined) noteReceived(exchange, parsedRequest, policy);
    if (isByModel) noteResolved(context);
    if (exchange.resumed === undefined) checkInputSize(context, log.capabilities.maxEventBytes);
    return { ...context, isRecorded: true };
  },
};

/** Room for the rest of an event that stores an input. */
const BESIDE_INPUT_BYTES = 1024 * 1024;
/** How many times larger than in the request a value can be, as with `1e20`. */
const VALUE_GROWTH = 5;
/** Upper bound of what is added to an item when it is stored. */
const ITEM_GROWTH = 256;

/** @throws Refusal (413) when the input of a response is larger than the event that would store it */
function checkInputSize({ exchange, parsedRequest }: Governed, maxEventBytes: number): void {
  const { dialect, request, record } = exchange;
  if (dialect.inputItems === undefined || dialect.keeps?.(parsedRequest) !== true) return;
  const { input } = parsedRequest.json;
  const items = Array.isArray(input) ? input.length : 1;
  const room = maxEventBytes - BESIDE_INPUT_BYTES;
  if (request.body.length * VALUE_GROWTH + items * ITEM_GROWTH <= room) return;
  const bytes = Buffer.byteLength(dialect.inputItems(parsedRequest, record.id));
  if (bytes > room)
    throw refusals.inputNotRecordable(`The input has ${bytes} bytes in the form that is stored`, maxEventBytes);
}

/**
 * Notes `request.received`, unless it is noted already. Refusals before the step `record` and answers from the record
 * note it themselves.
 * @param parsedRequest undefined for a body that was refused
 */
export function noteReceived(
  exchange: RunningExchange,
  parsedRequest: ParsedRequest | undefined,
  policy: ExchangePolicy,
): void {
  const { dialect, request, record, beforePlugins } = exchange;
  if (record.isReceived) return;
  const { capture, workflow } = policy;
  const { method, path, headers, clientIp, caller, labels, sessionId, body } = request;
  const facts = {
    dialect: dialect.name,
    method,
    path,
    headers: beforePlugins?.headers ?? headers,
    model: (beforePlugins?.model ?? parsedRequest?.model) || undefined,
    stream: parsedRequest?.stream ?? false,
    clientIp,
    gateway: exchange.gateway,
    authMethod: caller.authMethod,
    origin: caller.origin,
    capture,
    workflow,
    labels,
    sessionId,
  };
  const isKept = capture === 'full' && (dialect.take === undefined || body.length > 0);
  record.noteReceived(requestReceived.create(facts, record.context, isKept ? body : undefined));
  for (const one of beforePlugins?.applied ?? []) record.note(pluginApplied.create(one, record.context));
}

function noteResolved({ exchange, parsedRequest, route }: Governed): void {
  const { candidates, through, selections } = route;
  const [first] = candidates;
  if (first === undefined) return;
  const { provider, model } = first;
  const facts = { requested: parsedRequest.model, provider: provider.name, providerType: provider.type, model };
  const { record } = exchange;
  const chain = through.length === 0 ? facts : { ...facts, through };
  record.note(modelResolved.create(selections === undefined ? chain : { ...chain, selections }, record.context));
}
