/**
 * Calls one candidate after another, until one answers or no further call can succeed. When the gateway has repeated
 * a call and still failed, the error advises the client against a retry, which would multiply the calls. The
 * exception is 429: the client waits for `Retry-After` and retries by itself.
 * Only the last healthy candidate is retried as its retry policy states; every other one is followed by the next
 * candidate at once. Candidates that are not ready come last and are called once each.
 */
import type { Ticket } from '../../model-request/admission.ts';
import type { RefusedTarget } from '../../model-request/failed-target.ts';
import type { Route } from '../../model-request/routing-types.ts';
import type { Target } from '../../model-request/target.ts';
import { Refusal } from '../../refusal.ts';
import type { AttemptEnd, CallResult } from '../outcome.ts';

export interface TargetCall {
  readonly target: Target;
  /** Calls made before this one, to any provider. */
  readonly attemptsBefore: number;
  readonly kind: 'primary' | 'failover';
  /** Whether another candidate is called after this failure, so that it is not retried here. */
  readonly movesOn: ((refused: RefusedTarget) => boolean) | undefined;
}

export interface CalledTarget {
  readonly target: Target;
  readonly result: CallResult;
}

export interface Failover {
  readonly ticket: Ticket;
  readonly attemptsBefore: number;
  /** Milliseconds since the request was received. */
  elapsed(): number;
  /** @throws Refusal when the request cannot be sent to this target */
  call(call: TargetCall): Promise<CallResult>;
}

/**
 * The client gets the error of the candidate that was called last.
 * @throws Refusal when none could be called: all are saturated, or the request cannot be sent to any
 */
export async function callWithFailover(route: Route, failover: Failover): Promise<CalledTarget> {
  const { ticket, elapsed } = failover;
  const { candidates, ready } = route;
  let last: CalledTarget | undefined;
  let refused: unknown;
  let attempts = failover.attemptsBefore;
  let calls = 0;
  for (const [place, target] of candidates.entries()) {
    const full = ticket.enter(target);
    if (full !== undefined) {
      refused ??= full;
      continue;
    }
    const calledAt = route.observed === undefined ? 0 : elapsed();
    const movesOn = place === Math.max(ready, 1) - 1 ? undefined : route.failsOver;
    const kind = last === undefined ? 'primary' : 'failover';
    try {
      const result = await failover.call({ target, attemptsBefore: attempts, kind, movesOn });
      if (result.kind === 'open') return { target, result: observed(result, target, route, calledAt, elapsed) };
      if (result.kind === 'refused' && result.reason === 'budget_exceeded') return { target, result };
      const wasCalled = result.kind !== 'refused' || result.attempts > attempts;
      if (wasCalled) calls += 1;
      if (wasCalled || last === undefined) last = { target, result };
      if (wasCalled) observe(result, target, route, calledAt, elapsed);
      if (result.kind !== 'refused' || result.spent || result.reason !== undefined || !route.failsOver(result)) {
        return advised(last, calls > 1);
      }
      attempts = result.attempts;
    } catch (error) {
      // A request that cannot be sent to this provider may be possible for the next.
      if (!(error instanceof Refusal)) throw error;
      refused ??= error;
    }
  }
  if (last === undefined) throw refused;
  return advised(last, calls > 1);
}

/** @param isRepeated whether more than one target was called */
function advised(called: CalledTarget, isRepeated: boolean): CalledTarget {
  const { target, result } = called;
  if (result.kind !== 'refused' || result.refusal.status === 429) return called;
  if (!isRepeated && result.isRetried !== true) return called;
  return { target, result: { ...result, refusal: result.refusal.withoutRetry() } };
}

type Open = Extract<CallResult, { kind: 'open' }>;

function observed(result: Open, target: Target, route: Route, calledAt: number, elapsed: () => number): Open {
  if (route.observed === undefined) return result;
  return {
    ...result,
    async deliver() {
      const end = await result.deliver();
      observe(end, target, route, calledAt, elapsed);
      return end;
    },
  };
}

function observe(
  end: AttemptEnd | RefusedTarget,
  target: Target,
  route: Route,
  calledAt: number,
  elapsed: () => number,
): void {
  if (route.observed === undefined) return;
  const failure = end.kind === 'refused' ? end : undefined;
  const firstByteMs = end.kind === 'refused' ? undefined : end.received.firstByteMs;
  const firstByteAfter = firstByteMs === undefined ? undefined : Math.max(0, firstByteMs - calledAt);
  route.observed(target, failure, elapsed() - calledAt, firstByteAfter);
}
