/**
 * Asks one candidate after another, until one answers or there is no point in asking another. When the gateway has called
 * a provider again and failed all the same, the client is advised against another try, which would multiply the calls;
 * but for 429, after which the client waits for `Retry-After` and tries again itself.
 *
 * Whoever can be followed by another that is in order is not asked twice: the next one is asked at once. Only the last
 * of those in order is tried again as its retry policy says, and the last resorts behind it once each.
 */

import type { Ticket } from '../../model-request/admission.ts';
import type { Refused } from '../../model-request/failed-target.ts';
import type { Route } from '../../model-request/route.ts';
import type { Target } from '../../model-request/target.ts';
import { Refusal } from '../../refusal.ts';
import type { Outcome } from '../outcome.ts';

export interface Asking {
  /** Calls made already, to whichever provider. */
  readonly attemptsBefore: number;
  readonly kind: 'primary' | 'failover';
  /** Whether somebody else is asked after this failure, so that it is not tried again here. */
  readonly movesOn: ((refused: Refused) => boolean) | undefined;
}

export interface Answering {
  readonly target: Target;
  readonly outcome: Outcome;
}

export interface InTurn {
  readonly ticket: Ticket;
  readonly attemptsBefore: number;
  /** Milliseconds since the request was received. */
  elapsed(): number;
  ask(target: Target, asking: Asking): Promise<Outcome>;
}

/**
 * The error that is told in the end is that of the candidate that was called last.
 * @throws Refusal when none could be asked: all are saturated, or the request cannot be put to any
 */
export async function askInTurn(route: Route, { ticket, attemptsBefore, elapsed, ask }: InTurn): Promise<Answering> {
  const { candidates, ready } = route;
  let last: Answering | undefined;
  let refused: unknown;
  let attempts = attemptsBefore;
  let calls = 0;
  for (const [place, target] of candidates.entries()) {
    const full = ticket.enter(target);
    if (full !== undefined) {
      refused ??= full;
      continue;
    }
    const askedAt = route.observed === undefined ? 0 : elapsed();
    const movesOn = place === Math.max(ready, 1) - 1 ? undefined : route.failsOver;
    try {
      const outcome = await ask(target, {
        attemptsBefore: attempts,
        kind: last === undefined ? 'primary' : 'failover',
        movesOn,
      });
      const wasCalled = outcome.kind !== 'refused' || outcome.attempts > attempts;
      if (wasCalled) calls += 1;
      if (wasCalled || last === undefined) last = { target, outcome };
      if (wasCalled && route.observed !== undefined) {
        const failure = outcome.kind === 'refused' ? outcome : undefined;
        route.observed(target, failure, elapsed() - askedAt, firstByteAfter(askedAt, outcome));
      }
      if (outcome.kind !== 'refused' || outcome.spent || outcome.reason !== undefined || !route.failsOver(outcome)) {
        return advised(last, calls > 1);
      }
      attempts = outcome.attempts;
    } catch (error) {
      // What cannot be put to this provider may well be put to the next.
      if (!(error instanceof Refusal)) throw error;
      refused ??= error;
    }
  }
  if (last === undefined) throw refused;
  return advised(last, calls > 1);
}

/** @param isRepeated whether more than one target was called */
function advised(answering: Answering, isRepeated: boolean): Answering {
  const { target, outcome } = answering;
  if (outcome.kind !== 'refused' || outcome.refusal.status === 429) return answering;
  if (!isRepeated && outcome.isRetried !== true) return answering;
  return { target, outcome: { ...outcome, refusal: outcome.refusal.withoutRetry() } };
}

function firstByteAfter(askedAt: number, outcome: Outcome): number | undefined {
  const firstByteMs = outcome.kind === 'refused' ? undefined : outcome.received.firstByteMs;
  return firstByteMs === undefined ? undefined : Math.max(0, firstByteMs - askedAt);
}
