/**
 * Before a provider is called: the request is recorded, its spending is reserved under its limits and budgets, and its
 * idempotency key is claimed.
 */
import { modelResolved, requestReceived } from '../../../events/catalogue/exchange.ts';
import { pluginApplied } from '../../../events/catalogue/gateway.ts';
import { whenNewerEvent } from '../../../events/log.ts';
import type { Ticket } from '../../model-request/admission.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import { refusals } from '../../refusal.ts';
import type { Answer, RecordedAnswer } from '../answer-source.ts';
import type { ExchangePolicy } from '../policy.ts';
import { type KeyClaim, lookUpKey, noAnswer } from '../record/idempotency-key.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type {
  Admitted,
  Governed,
  Guarded,
  KeyLookedUp,
  Recorded,
  RequestParsed,
  RunningExchange,
  Step,
} from './running-exchange.ts';

// The first events of an exchange. They are appended to the log before the exchange has any effect outside the
// gateway.

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

/** Looks up the request's idempotency key: returns the recorded answer, or the claim to make. */
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

function keyedRequestOf({ dialect, request, record, client }: RunningExchange) {
  return { endpoint: dialect.endpoint, request, record, ended: client.ended };
}

// Claims the idempotency key of a request in the log.

/** What a request holds while it claims its key. */
interface HeldByClaim {
  /** Called before each attempt to claim. @throws Refusal */
  hold(): void | Promise<void>;
  /** Called when another request has claimed the key. */
  release(): void;
}

const nothing: HeldByClaim = { hold: () => {}, release: () => {} };

/**
 * Appends the claim with everything that is noted, durably.
 * @returns the answer of the request that claimed the key first; undefined when this one did
 * @throws Refusal, LogUnavailable
 */
export async function makeClaim(
  exchange: RunningExchange,
  first: KeyClaim,
  deps: ExchangeDependencies,
  { hold, release }: HeldByClaim = nothing,
): Promise<RecordedAnswer | undefined> {
  let claim = first;
  for (;;) {
    await hold();
    const { stream, event, expectedRevision } = claim;
    if (await exchange.record.flushIf({ stream, events: [event], expectedRevision })) {
      // A later request with the key gets the answer, also when this client does not wait for it.
      const detached = deps.detached.detach(exchange.client);
      exchange.client = detached;
      exchange.scope.atEnd(() => detached.over());
      return undefined;
    }
    release();
    // The other claim can be read once it is on disk.
    const from = expectedRevision === 'noStream' ? undefined : expectedRevision;
    await whenNewerEvent(stream, from, deps.log, exchange.client.ended);
    if (exchange.client.ended.aborted) return noAnswer;
    const found = await lookUpKey(keyedRequestOf(exchange), deps);
    if ('source' in found) return found;
    claim = found;
  }
}

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
