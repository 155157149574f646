/** Calls one target until it answers or a retry cannot help. Every attempt is recorded. */

import { hash } from 'node:crypto';
import {
  type AttemptRequest,
  type AttemptRequestBase,
  attemptFailed,
  attemptStarted,
  costReserved,
} from '../../../events/catalogue/exchange.ts';
import type { FailureKind } from '../../../providers/provider.ts';
import { callerName, type ModelRequest } from '../../model-request/model-request.ts';
import type { RefusedTarget, Target } from '../../model-request/routing-types.ts';
import { refusals } from '../../refusal.ts';
import { type AttemptEnd, type CallResult, type FailedAttempt, isMade, nothingYet, type Plan } from '../plan.ts';
import { noteSpending } from '../record/spending.ts';
import { type CallingExchange, callProvider } from './call-provider.ts';
import { type CircuitBreakers, verdictOf } from './circuit-breaker.ts';

/** A call of one target. */
interface TargetCall {
  readonly target: Target;
  readonly plan: Plan;
  /** Of the exchange. */
  readonly recorded: RecordedBodies;
  /** Calls made before this one, when the exchange is resumed or has called another target. */
  readonly attemptsBefore: number;
  readonly kind: 'primary' | 'failover';
  /** Whether another target is called after this failure; if so, this one is not retried. Undefined: no other target. */
  readonly movesOn: ((refused: RefusedTarget) => boolean) | undefined;
}

/** The exchange of the calls. */
interface RetryingExchange extends CallingExchange {
  readonly request: ModelRequest;
  /** Calls `release` once, at the end of the exchange. */
  atEnd(release: () => void): void;
  /** Receives what is to be called with the end of an answer that is still to be delivered. */
  readonly whenDelivered: ((end: AttemptEnd) => void)[];
  /**
   * A background response: no client waits, so its 429 is retried here. The client of another request gets the 429 with
   * `Retry-After` and retries by itself.
   */
  readonly pendingResponse: object | undefined;
  readonly deps: CallingExchange['deps'] & {
    /** By provider name. */
    readonly resilience: ReadonlyMap<
      string,
      { readonly retry: RetryPolicy; readonly breakers: Pick<CircuitBreakers, 'of'> }
    >;
    /** `durable` when the provider may be called only after the request is on disk. */
    readonly recordBeforeCall: 'written' | 'durable';
    random(): number;
    /** Resolves after the wait, or at once when the signal is aborted. */
    wait(ms: number, signal: AbortSignal): Promise<void>;
  };
}

/** @throws LogUnavailable */
export async function callTarget(call: TargetCall, exchange: RetryingExchange): Promise<CallResult> {
  const { target, attemptsBefore } = call;
  const { provider, model } = target;
  const { request, deps, whenDelivered } = exchange;
  const resilience = deps.resilience.get(provider.name);
  if (resilience === undefined) throw new Error(`no resilience policy for provider ${provider.name}`);
  const { retry, breakers } = resilience;
  if (isMade(call.plan)) return attemptUntilAnswered(call, exchange, retry);
  const breaker = breakers.of(model);
  const pausedMs = provider.pausedMs(model);
  if (pausedMs > 0) {
    if (exchange.pendingResponse === undefined || pausedMs > retry.maxBackoffMs) {
      const refusal = refusals.rateLimitedByProvider(provider.name, model, Math.ceil(pausedMs / 1000));
      return { kind: 'refused', refusal, attempts: attemptsBefore };
    }
    await deps.wait(pausedMs, exchange.client.ended);
  }
  let digest: string | undefined;
  const { body } = request;
  const permission = breaker.enter({
    caller: callerName(request.caller),
    // Only breakers with failures need it.
    body: () => (digest ??= body instanceof Uint8Array ? hash('sha256', body, 'base64') : undefined),
  });
  if (permission.permit === undefined) {
    const refusal = refusals.circuitOpen(provider.name, model, Math.ceil(permission.waitMs / 1000));
    return { kind: 'refused', refusal, attempts: attemptsBefore };
  }
  const { permit } = permission;
  // After an error that the provider did not cause.
  exchange.atEnd(() => permit.end('neutral'));
  const result = await attemptUntilAnswered(call, exchange, retry);
  if (result.kind === 'open') whenDelivered.push((end) => permit.end(verdictOf(end, breaker.policy)));
  else permit.end(verdictOf(result, breaker.policy));
  return result;
}

async function attemptUntilAnswered(
  call: TargetCall,
  exchange: RetryingExchange,
  retry: RetryPolicy,
): Promise<CallResult> {
  const { target } = call;
  const { record, client, reservation, policy, deps } = exchange;
  const { provider } = target;
  const onLog = reservation?.onLog;
  let { plan } = call;
  let kind: 'primary' | 'failover' | 'retry' | 'translation' = call.kind;
  let tries = 0;
  for (let attempt = call.attemptsBefore + 1; ; attempt++) {
    tries += 1;
    const over = attempt === 1 ? undefined : reservation?.again();
    if (over !== undefined) return { kind: 'refused', refusal: over, attempts: attempt - 1, reason: 'budget_exceeded' };
    const reservedCost = reservation?.reservedCost();
    const path = plan.kind === 'model' ? provider.pathOf(plan.dialect) : undefined;
    const { request, body: sentBody } = sentRequest(call.recorded, attempt, plan, path);
    const reserved = onLog?.next();
    if (reserved !== undefined) record.note(costReserved.create(reserved, record.context));
    record.note(
      attemptStarted.create(
        {
          attempt,
          kind,
          provider: provider.name,
          providerType: provider.type,
          model: target.model || undefined,
          dialect: plan.dialect,
          guarded: plan.isGuarded,
          outputLimit: plan.outputLimit,
          runsTools: isMade(plan) || undefined,
          calls: plan.calls,
          reservedCost: reservedCost === undefined ? undefined : String(Math.ceil(reservedCost)),
          request,
        },
        record.context,
        sentBody,
      ),
    );
    const appended = await record.flush(deps.recordBeforeCall);
    if (reserved !== undefined && appended !== undefined) {
      const overBudget = await onLog?.decided(appended.position);
      if (overBudget !== undefined) {
        return { kind: 'refused', refusal: overBudget, attempts: attempt, reason: 'budget_exceeded' };
      }
    }
    const outcome = await callProvider(exchange, target, plan, attempt);
    if (outcome.kind === 'upload_failed') {
      return { kind: 'refused', refusal: outcome.refusal, attempts: attempt, reason: 'upload_failed' };
    }
    if (outcome.kind !== 'failed') return outcome;

    const { status, failure, body } = outcome;
    const refusal = isFinal(status, retry) ? outcome.refusal.withoutRetry() : outcome.refusal;
    const isAnswered = status !== undefined || failure?.kind === 'disconnected';
    const other = isAnswered ? await plan.instead?.(refusal) : undefined;
    const stopped = client.ended.aborted || failure?.kind === 'aborted';
    const refused: RefusedTarget = {
      kind: 'refused',
      refusal,
      attempts: attempt,
      status,
      failure: failure?.kind,
      isMalformed: outcome.malformed,
      isRetried: tries > 1,
      spent: plan.kind === 'forward' && !plan.repeatable,
    };
    const movesOn = other !== undefined || stopped || (!refused.spent && call.movesOn?.(refused) === true);
    const retryInMs = movesOn ? undefined : delayAfter(outcome, plan, tries, retry, exchange);
    // A call that the client ended is not a failure of its provider.
    const endedByClient = client.ended.aborted && failure?.kind === 'aborted';
    if (!endedByClient) {
      record.note(
        attemptFailed.create(
          { attempt, status, code: refusal.code, message: refusal.message, retryInMs, durationMs: record.elapsed() },
          record.context,
          policy.capture === 'full' ? body : undefined,
        ),
      );
    }
    if (failure?.kind === 'aborted') return abandoned(plan, attempt, !failure.isSent, outcome.spent);
    if (outcome.spent !== undefined) {
      noteSpending(exchange, target, outcome.spent.reader, { isPartial: false, failedAttempt: attempt });
    }
    if (stopped) {
      return abandoned(plan, attempt, true);
    }
    if (other !== undefined) {
      kind = other.dialect === plan.dialect ? 'retry' : 'translation';
      plan = other;
      tries = 0;
      continue;
    }
    if (retryInMs === undefined) return refused;
    await deps.wait(retryInMs, client.ended);
    if (client.ended.aborted) {
      return abandoned(plan, attempt, true);
    }
    kind = 'retry';
  }
}

/**
 * The client left before the attempt had an answer.
 * @param notCalled whether no provider was working on the request
 * @param answer of what parallel calls had reported
 */
function abandoned(plan: Plan, attempt: number, notCalled: boolean, answer = plan.newStream(attempt)): CallResult {
  return { kind: 'abandoned', rest: [], attempt, plan, answer, received: nothingYet(), notCalled };
}

/** Whether the gateway retries other statuses and not this one of a provider's fault: a retry of the client is none too. */
function isFinal(status: number | undefined, { maxRetries, onStatuses }: RetryPolicy): boolean {
  return (
    status !== undefined && status >= 500 && maxRetries > 0 && onStatuses.length > 0 && !onStatuses.includes(status)
  );
}

/** The wait in milliseconds before the same target is called again; undefined when it is not. */
function delayAfter(
  failed: FailedAttempt,
  plan: Plan,
  tries: number,
  retry: RetryPolicy,
  { pendingResponse, deps }: RetryingExchange,
): number | undefined {
  if (failed.malformed || isMade(plan) || (plan.kind === 'forward' && !plan.repeatable)) return undefined;
  const { status, failure, retryAfterMs } = failed;
  if (status === 429 && pendingResponse === undefined) return undefined;
  const attempt = { attempt: tries, status, transport: failure?.kind, retryAfterMs };
  return retryDelay(attempt, retry, deps.random);
}

// Whether a failed attempt is repeated, and after which delay. Pure.

export interface RetryPolicy {
  readonly maxRetries: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly factor: number;
  /** Share of the wait that is random, 0 to 1. */
  readonly jitter: number;
  /** Provider statuses after which an attempt is repeated. Connection failures always are, except a proxy's 407. */
  readonly onStatuses: readonly number[];
}

interface AttemptFailure {
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly status?: number;
  /** The provider could not be reached, or broke off before it answered. */
  readonly transport?: FailureKind;
  readonly retryAfterMs?: number;
}

/** The wait before the next attempt in milliseconds; undefined when there is none. */
export function retryDelay(failed: AttemptFailure, policy: RetryPolicy, random: () => number): number | undefined {
  if (failed.attempt > policy.maxRetries) return undefined;
  const mayRetry =
    failed.status === undefined
      ? failed.transport === 'unreachable' || failed.transport === 'broken'
      : policy.onStatuses.includes(failed.status);
  if (!mayRetry) return undefined;
  const backoff = Math.min(policy.initialBackoffMs * policy.factor ** (failed.attempt - 1), policy.maxBackoffMs);
  const wait = Math.max(0, backoff * (1 + policy.jitter * (2 * random() - 1)));
  if (failed.retryAfterMs === undefined) return Math.min(wait, policy.maxBackoffMs);
  // A provider whose `Retry-After` exceeds the maximum backoff is not called again.
  return failed.retryAfterMs > policy.maxBackoffMs ? undefined : Math.max(failed.retryAfterMs, 0);
}

// The bodies of an exchange's requests to providers, as `attempt.started` records them: by the bytes that differ from a
// body which is on record already.

/** The bodies from which a body may be recorded by its difference. */
export interface RecordedBodies {
  /** Otherwise only size and digest of a body are recorded. */
  readonly keepBodies: boolean;
  /** The body of `request.received`; undefined when it is not on record. */
  readonly client: Buffer | undefined;
  /** The request as guardrails changed it, the body of `guardrail.applied`; undefined when they did not. */
  readonly guardrails: Buffer | undefined;
  /** The body of the attempt before. */
  previous?: { readonly base: AttemptRequestBase; readonly body: Buffer };
}

interface SentRequest {
  readonly request: AttemptRequest;
  /** The bytes between those that the body shares with its base; undefined when there are none. */
  readonly body: Buffer | undefined;
}

interface Difference {
  readonly base: AttemptRequestBase;
  readonly prefixBytes: number;
  readonly suffixBytes: number;
}

const nothing = Buffer.alloc(0);

/** The request of the next attempt, whose body is the one that is sent, and the base of the one after. */
export function sentRequest(
  recorded: RecordedBodies,
  attempt: number,
  plan: Plan,
  path: string | undefined,
): SentRequest {
  const head: { path?: string; contentType?: string } = path === undefined ? {} : { path };
  if (plan.kind === 'forward' && plan.body !== undefined) {
    const contentType = plan.call.headers['content-type'];
    if (contentType !== undefined && contentType !== 'application/json') head.contentType = contentType;
  }
  const { body: given = nothing } = plan;
  if (!(given instanceof Uint8Array)) return { request: { ...head, streamed: true }, body: undefined };
  const bytes = given.length;
  if (bytes === 0) return { request: { ...head, bytes }, body: undefined };
  if (!recorded.keepBodies || (plan.kind === 'forward' && plan.fields !== undefined)) {
    return { request: { ...head, bytes, sha256: hash('sha256', given) }, body: undefined };
  }
  const body = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
  const { client, guardrails, previous: before } = recorded;
  recorded.previous = { base: `attempt:${attempt}`, body };
  // From the base that leaves the fewest bytes to record.
  let difference = guardrails !== undefined ? differenceOf(body, 'guardrails', guardrails) : undefined;
  if (guardrails === undefined && client !== undefined) difference = differenceOf(body, 'client', client);
  if (before !== undefined && (difference === undefined || shared(difference) < bytes)) {
    const toPrevious = differenceOf(body, before.base, before.body);
    if (difference === undefined || shared(toPrevious) > shared(difference)) difference = toPrevious;
  }
  if (difference === undefined) return { request: { ...head, bytes }, body };
  const { prefixBytes, suffixBytes } = difference;
  const middle = body.subarray(prefixBytes, bytes - suffixBytes);
  return { request: { ...head, bytes, ...difference }, body: middle.length === 0 ? undefined : middle };
}

function shared({ prefixBytes, suffixBytes }: Difference): number {
  return prefixBytes + suffixBytes;
}

/** How many bytes the body shares with another, at its beginning and at its end. */
export function differenceOf(body: Buffer, base: AttemptRequestBase, other: Buffer): Difference {
  if (body === other) return { base, prefixBytes: body.length, suffixBytes: 0 };
  const most = Math.min(body.length, other.length);
  const prefixBytes = sharedLength(body, other, most, false);
  return { base, prefixBytes, suffixBytes: sharedLength(body, other, most - prefixBytes, true) };
}

/** Longer ranges are compared natively, shorter ones byte by byte. */
const SHORT_RANGE = 512;

/** @param most bytes of both that may count, at most the length of the shorter one */
function sharedLength(one: Buffer, other: Buffer, most: number, atEnd: boolean): number {
  let equal = 0;
  for (let range = SHORT_RANGE; range >= SHORT_RANGE; ) {
    const end = equal + range;
    const ofOne = atEnd ? one.length - end : equal;
    const ofOther = atEnd ? other.length - end : equal;
    if (end <= most && one.compare(other, ofOther, ofOther + range, ofOne, ofOne + range) === 0) {
      equal = end;
      range *= 2;
    } else range /= 2;
  }
  if (atEnd) while (equal < most && one[one.length - 1 - equal] === other[other.length - 1 - equal]) equal++;
  else while (equal < most && one[equal] === other[equal]) equal++;
  return equal;
}
