/**
 * Before a provider is called: the request is recorded, its spending is reserved under its limits and budgets, and its
 * idempotency key is claimed.
 */
import { modelResolved, requestReceived } from '../../../events/catalogue/exchange.ts';
import { pluginApplied } from '../../../events/catalogue/gateway.ts';
import { whenNewerEvent } from '../../../events/log.ts';
import type { Admission, RequestReservation } from '../../model-request/admission.ts';
import { refusals } from '../../refusal.ts';
import type { RecordedAnswer } from '../answer-source.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangePolicy, GuardrailSteps } from '../policy.ts';
import { type KeyClaim, lookUpKey, noAnswer } from '../record/idempotency-key.ts';
import {
  type Admitted,
  cachePolicyOf,
  type Governed,
  type RequestParsed,
  type RunningExchange,
} from './running-exchange.ts';

// The first events of an exchange. They are appended to the log before the exchange has any effect outside the
// gateway.

/** @throws Refusal (413) when the input of a response is larger than the event that would store it */
export function record(exchange: Governed): void {
  const { dialect, record, route, parsedRequest, resumed, deps } = exchange;
  if (resumed === undefined) noteReceived(exchange, exchange.policy);
  const { candidates, through, selections } = route;
  const [first] = candidates;
  if (exchange.isByModel && first !== undefined) {
    const { provider, model } = first;
    const facts = {
      requested: parsedRequest.model,
      provider: provider.name,
      providerType: provider.type,
      model,
      through: through.length === 0 ? undefined : through,
      selections,
    };
    record.note(modelResolved.create(facts, record.context));
  }
  if (resumed === undefined && dialect.inputItems !== undefined && dialect.keeps?.(parsedRequest) === true) {
    checkInputSize(exchange, dialect.inputItems, deps.log.capabilities.maxEventBytes);
  }
}

/** Room for the rest of an event that stores an input. */
const BESIDE_INPUT_BYTES = 1024 * 1024;
/** How many times larger than in the request a value can be, as with `1e20`. */
const VALUE_GROWTH = 5;
/** Upper bound of what is added to an item when it is stored. */
const ITEM_GROWTH = 256;

/** @throws Refusal (413) when the input of a response is larger than the event that would store it */
function checkInputSize(
  { request, record, parsedRequest }: Governed,
  inputItems: NonNullable<ExchangeDialect['inputItems']>,
  maxEventBytes: number,
): void {
  const { input } = parsedRequest.json;
  const items = Array.isArray(input) ? input.length : 1;
  const room = maxEventBytes - BESIDE_INPUT_BYTES;
  if (request.body.length * VALUE_GROWTH + items * ITEM_GROWTH <= room) return;
  const bytes = Buffer.byteLength(inputItems(parsedRequest, record.id));
  if (bytes > room)
    throw refusals.inputNotRecordable(`The input has ${bytes} bytes in the form that is stored`, maxEventBytes);
}

/**
 * Notes `request.received`, unless it is noted already. Refusals before the step `record` and answers from the record
 * note it themselves.
 */
export function noteReceived(
  exchange: RunningExchange,
  policy: ExchangePolicy,
  parsedRequest = exchange.parsedRequest,
): void {
  const { dialect, request, record, beforePlugins } = exchange;
  if (record.isReceived) return;
  const { capture, workflow } = policy;
  const { method, path, headers, clientIp, clientSubject, caller, labels, sessionId, body } = request;
  const facts = {
    dialect: dialect.name,
    method,
    path,
    headers: beforePlugins?.headers ?? headers,
    model: (beforePlugins?.model ?? parsedRequest?.model) || undefined,
    stream: parsedRequest?.stream ?? false,
    clientIp,
    clientSubject,
    gateway: exchange.deps.gateway,
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

/** Looks up the request's idempotency key. @returns the recorded answer; undefined when the claim is to be made */
export async function claimKey(exchange: RequestParsed): Promise<RecordedAnswer | undefined> {
  const { request, deps } = exchange;
  const found = await lookUpKey(exchange, deps);
  if ('source' in found) {
    noteReceived(exchange, deps.policyOf(request, undefined));
    return found;
  }
  exchange.claim = found;
  return undefined;
}

// Claims the idempotency key of a request in the log.

/**
 * Appends the claim with everything that is noted, durably.
 * @param hold called before each attempt to claim. @throws Refusal
 * @param release called when another request has claimed the key
 * @returns the answer of the request that claimed the key first; undefined when this one did
 * @throws Refusal, LogUnavailable
 */
export async function makeClaim(
  exchange: RunningExchange,
  first: KeyClaim,
  hold: () => void | Promise<void> = () => {},
  release: () => void = () => {},
): Promise<RecordedAnswer | undefined> {
  const { deps } = exchange;
  let claim = first;
  for (;;) {
    await hold();
    const { stream, event, expectedRevision } = claim;
    if (await exchange.record.flushIf({ stream, events: [event], expectedRevision })) {
      // A later request with the key gets the answer, also when this client does not wait for it.
      const detached = deps.detached.detach(exchange.client);
      exchange.client = detached;
      exchange.atEnd(() => detached.over());
      return undefined;
    }
    release();
    // The other claim can be read once it is on disk.
    const from = expectedRevision === 'noStream' ? undefined : expectedRevision;
    await whenNewerEvent(stream, from, deps.log, exchange.client.ended);
    if (exchange.client.ended.aborted) return noAnswer;
    const found = await lookUpKey(exchange, deps);
    if ('source' in found) return found;
    claim = found;
  }
}

/**
 * Takes the place of the request in its limits and budgets while guardrails evaluate it: limits and exhausted budgets
 * refuse it before. A request that a guardrail ends counts in the rate limits; `admit` takes the place again for the
 * request that they let pass. @throws Refusal (429)
 */
export async function holdLimits(exchange: Governed, { prompt }: GuardrailSteps): Promise<void> {
  const { policy, dialect, parsedRequest, route, deps } = exchange;
  deps.guardedEndpoints.get(dialect.endpoint)?.check?.({ parsedRequest, candidates: route.candidates });
  if (prompt.length === 0) return;
  // A hit of the cache is free of budgets; without one, `admit` checks them.
  const reservation = await reserveFor(exchange, policy.checksBudgets && cachePolicyOf(exchange) === undefined);
  if (reservation === undefined) return;
  let counts = true;
  exchange.atEnd(() => reservation.settle(false, counts));
  exchange.releaseHeld = () => {
    counts = false;
    reservation.settle(false, counts);
  };
}

/** Not yet released at the end of the exchange. @throws Refusal (429) */
function reserveFor(
  { client, dialect, request, record, parsedRequest, route, guarded, deps }: Governed,
  checksBudgets: boolean,
): ReturnType<Admission['admit']> {
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
  return deps.admission.admit(admitted, client.ended);
}

/** Reserves the cost of the request, and claims its idempotency key. @throws Refusal, LogUnavailable */
export function admit(exchange: Governed): Admitted | Promise<Admitted | RecordedAnswer> {
  if (exchange.claim !== undefined) return admitUnderKey(exchange, exchange.claim);
  const reservation = reservationOf(exchange);
  return reservation instanceof Promise
    ? reservation.then((given) => admitted(exchange, given))
    : admitted(exchange, reservation);
}

function reservationOf(exchange: Governed): ReturnType<Admission['admit']> {
  const { dialect, parsedRequest, policy } = exchange;
  return dialect.runsTools?.(parsedRequest) ? undefined : reserveFor(exchange, policy.checksBudgets);
}

function admitted(exchange: Governed, reservation: RequestReservation | undefined): Admitted {
  const { record, dialect } = exchange;
  if (reservation !== undefined) {
    exchange.atEnd((isRecorded) => reservation.settle(isRecorded, record.called || dialect.alwaysCounts === true));
  }
  return Object.assign(exchange, { reservation });
}

/**
 * Reserves before the key is claimed, so that a refused request leaves the key to the next. When another request
 * claims the key first, the client gets that request's answer.
 */
async function admitUnderKey(exchange: Governed, claim: KeyClaim): Promise<Admitted | RecordedAnswer> {
  let held: Admitted | undefined;
  const hold = async () => {
    held = admitted(exchange, await reservationOf(exchange));
  };
  const earlier = await makeClaim(exchange, claim, hold, () => exchange.release(false));
  if (earlier !== undefined) return earlier;
  if (held === undefined) throw new Error('the key was claimed without a reservation');
  return held;
}
