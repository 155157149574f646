/** Whether a request may be made at all: budgets and rate limits, answered from memory. */

import type { Refusal } from '../refusal.ts';
import type { Caller } from './caller.ts';
import type { Asked } from './parsed-request.ts';
import type { Target } from './target.ts';
import type { EstimatedTokens, Units } from './units.ts';
import type { TokenUsage } from './usage.ts';

export interface AdmissionRequest {
  readonly caller: Pick<Caller, 'userPath' | 'key'>;
  readonly labels: readonly string[] | undefined;
  readonly endpoint: string;
  readonly asked: Asked;
  /** Those that may be asked: it is not known yet which of them is going to answer. */
  readonly candidates: readonly Target[];
  /** What is charged for beside tokens, as far as the request tells. */
  readonly units?: Units | undefined;
  readonly bodyBytes: number;
  /** Under which the settling `usage.recorded` will be found in the log. */
  readonly exchangeId: string;
}

/** What an answer turned out to cost: the facts of its `usage.recorded`. */
export interface Charge {
  readonly usage: TokenUsage;
  /** Tokens that count in place of those that the provider did not report. */
  readonly estimate?: EstimatedTokens | undefined;
  /** Nano-dollars as decimal text; null when the price is not known. */
  readonly totalCost: string | null;
  /** Of an attempt that failed: there may be more to come. */
  readonly isFailed: boolean;
}

export interface Admission {
  /** Reserves an estimate for the caller's user path and those above it. @throws Refusal (429) */
  admit(request: AdmissionRequest): Ticket;
  /**
   * Counts a request that begins no exchange, such as one that changes a conversation, in the rate limits of periods; it
   * does not count in those of requests at the same time. @throws Refusal (429)
   */
  admitRequest(caller: Pick<Caller, 'userPath' | 'key'>): void;
  /** Whether the provider and the model have room now: a saturated target counts as unavailable for balancing. */
  hasRoom(target: Target): boolean;
}

/** One admitted exchange, until it ends. Every ticket is settled, exactly once, whatever happens. */
export interface Ticket extends Reservation {
  /**
   * Takes a place with the provider and the model; one taken before with another target is given back.
   * @returns why there is none (429)
   */
  enter(target: Target): Refusal | undefined;
  /** `x-ratelimit-*` of the tightest rule, empty when the caller may not read its amounts; undefined without a rule. */
  headers(): Record<string, string> | undefined;
  /**
   * The provider goes on working after the exchange: what is reserved stays so until `usage.settled` is on record.
   * @returns nano-dollars that are reserved; undefined when no budget counts what is spent
   */
  defer(): number | undefined;
  /** Counts what was spent with the target that was entered. Called when it is noted, before the log has it. */
  charge(charge: Charge): void;
  /**
   * Gives back what was reserved.
   * @param isRecorded whether what was charged is on record; what is not is charged when the record is closed
   * @param wasCalled whether a provider was called: a request that was refused before does not count in the rate limits
   */
  settle(isRecorded: boolean, wasCalled?: boolean): void;
}

/** Of an exchange that nothing limits. */
export const freeTicket: Ticket = {
  enter: () => undefined,
  headers: () => undefined,
  isMetered: false,
  reserve: () => {},
  expectEarlierTurns: () => {},
  defer: () => undefined,
  charge: () => {},
  settle: () => {},
};

/** Admits every request: for a gateway without limits. */
export const withoutLimits: Admission = {
  admit: () => freeTicket,
  admitRequest: () => {},
  hasRoom: () => true,
};

/** What is reserved of the caller's budgets. */
export interface Reservation {
  /** Whether any budget counts what is spent. */
  readonly isMetered: boolean;
  /** Reserves so much in place of the estimate. @param nano nano-dollars. @throws Refusal (429) */
  reserve(nano: number): void;
  /** Adds turns that go in front of what the request says itself to the estimate. @throws Refusal (429) */
  expectEarlierTurns(tokens: number): void;
}
