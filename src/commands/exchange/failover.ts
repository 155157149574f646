/** Asks one candidate after another, until one answers or there is no point in asking another. */
import { Refusal } from '../refusal.ts';
import type { Ticket } from './admission.ts';
import type { Outcome } from './attempts.ts';
import type { Target } from './dialect.ts';
import type { Route } from './route.ts';

export interface Asking {
  /** Calls made already, to whichever provider. */
  readonly attemptsBefore: number;
  readonly kind: 'primary' | 'failover';
}

export interface Answering {
  readonly target: Target;
  readonly outcome: Outcome;
}

/**
 * The error that is told in the end is that of the candidate asked last.
 * @throws Refusal when none could be asked: all are saturated, or the request cannot be put to any
 */
export async function askInTurn(
  route: Route,
  ticket: Ticket,
  attemptsBefore: number,
  ask: (target: Target, asking: Asking) => Promise<Outcome>,
): Promise<Answering> {
  let last: Answering | undefined;
  let refused: unknown;
  let attempts = attemptsBefore;
  for (const target of route.candidates) {
    const full = ticket.enter(target);
    if (full !== undefined) {
      refused ??= full;
      continue;
    }
    try {
      const outcome = await ask(target, {
        attemptsBefore: attempts,
        kind: last === undefined ? 'primary' : 'failover',
      });
      last = { target, outcome };
      if (outcome.kind !== 'refused' || !route.failsOver(outcome)) return last;
      attempts = outcome.attempts;
    } catch (error) {
      // What cannot be put to this provider may well be put to the next.
      if (!(error instanceof Refusal)) throw error;
      refused ??= error;
    }
  }
  if (last === undefined) throw refused;
  return last;
}
