/** Admission of a request by budgets and rate limits, decided from memory. */
import type { Position } from '../../events/event.ts';
import type { Refusal } from '../refusal.ts';
import type { Caller, ParsedRequest } from './model-request.ts';
import type { Target } from './routing-types.ts';
import type { EstimatedTokens, TokenUsage, Units } from './usage.ts';

export interface AdmissionRequest {
  readonly caller: Pick<Caller, 'userPath' | 'key' | 'origin'>;
  readonly labels: readonly string[] | undefined;
  readonly endpoint: string;
  readonly parsedRequest: ParsedRequest;
  /** The targets that may be called; which of them will answer is not known yet. */
  readonly candidates: readonly Target[];
  /** Units that are charged besides tokens, as far as the request states them. */
  readonly units?: Units | undefined;
  readonly bodyBytes: number;
  /** Its provider may read other values of its members than the gateway. */
  readonly isAmbiguous?: boolean;
  /**
   * Of a provider's own API, the answers of which the gateway does not limit: the model request in the body. Called where a
   * budget counts the request. @returns undefined when the body names no model, or is not at hand
   */
  readonly passed?: (() => PassedRequest | undefined) | undefined;
  /** The exchange in whose stream the settling `usage.recorded` is recorded. */
  readonly exchangeId: string;
  /** Whether budgets count the request. Rate limits always do. */
  readonly checksBudgets: boolean;
}

/** A model request that passes unread, as the endpoint of its kind would read it. */
export type PassedRequest = Pick<
  AdmissionRequest,
  'endpoint' | 'parsedRequest' | 'candidates' | 'units' | 'isAmbiguous'
>;

/** The actual cost of an answer: the facts of its `usage.recorded`. */
export interface Charge {
  readonly usage: TokenUsage;
  /** Tokens to count when the provider did not report them. */
  readonly estimate?: EstimatedTokens | undefined;
  /** Nano-dollars as decimal text; null when the price is not known. */
  readonly totalCost: string | null;
  /** Set for a failed attempt, after which more may be charged. */
  readonly isFailed: boolean;
}

export interface Admission {
  /**
   * Reserves an estimate for the caller's user path and the paths above it, after a wait for what others have reserved in
   * the request's budgets, if that is likely to help.
   * @param signal aborted when the client has left
   * @returns undefined when neither a limit nor a budget counts the request. @throws Refusal (429)
   */
  admit(
    request: AdmissionRequest,
    signal: AbortSignal,
  ): RequestReservation | undefined | Promise<RequestReservation | undefined>;
  /**
   * Counts a request that begins no exchange, such as a change of a conversation, in the rate limits of periods;
   * limits of concurrent requests do not count it. @throws Refusal (429)
   */
  admitRequest(caller: Pick<Caller, 'userPath' | 'key'>): void;
  /** Whether the provider and the model have room now: a saturated target counts as unavailable for balancing. */
  hasRoom(target: Target): boolean;
}

/** The data of `cost.reserved`. */
export interface RecordedReservation {
  readonly amount: string;
  readonly bounded: boolean;
  readonly labels?: readonly string[];
}

/** A reservation that is recorded, where several gateways use the log: its order decides whether it fits. */
export interface ReservationOnLog {
  /** What to record before the next call of a provider; undefined while the latest that was recorded applies. */
  next(): RecordedReservation | undefined;
  /**
   * Resolves when the log is read up to the recorded reservation. @param position at or after it
   * @returns the refusal (429) when it did not fit
   */
  decided(position: Position): Promise<Refusal | undefined>;
}

/** One admitted exchange, until it ends. Every reservation is settled exactly once, in every case. */
export interface RequestReservation extends Reservation {
  /** Undefined when no budget counts the cost, and where one gateway at a time uses the log. */
  readonly onLog?: ReservationOnLog | undefined;
  /**
   * The most tokens of each answer that the reservation covers at a target; undefined when the request's own limit is
   * covered, or no limit is sent.
   */
  outputLimit(target: Target): number | undefined;
  /**
   * The provider has counted the input, and the client gets its answer: the reservation is corrected, in both directions.
   * @returns what is to be recorded, where several gateways use the log
   */
  inputCounted(usage: TokenUsage): RecordedReservation | undefined;
  /** Nano-dollars that are reserved for the next call, and that the log does not show otherwise. */
  reservedCost(): number | undefined;
  /** Whether a further call fits, after one that has cost something. @returns the refusal (429) when it does not */
  again(): Refusal | undefined;
  /**
   * Takes a place at the provider and the model, and releases a place taken before at another target.
   * @returns the refusal (429) when there is no room
   */
  enter(target: Target): Refusal | undefined;
  /** `x-ratelimit-*` of the tightest rule, empty when the caller may not read its amounts; undefined without a rule. */
  headers(): Record<string, string> | undefined;
  /**
   * The provider continues its work after the exchange: the reservation stays until `usage.settled` is recorded.
   * @returns nano-dollars that are reserved; undefined when no budget counts the cost
   */
  defer(): number | undefined;
  /** Counts the cost at the entered target. Called when the usage is noted, before it is appended to the log. */
  charge(charge: Charge): void;
  /**
   * Releases the reservation.
   * @param isRecorded whether the charged usage is recorded; usage that is not is charged when the record is closed
   * @param wasCalled whether a provider was called: a request refused before that does not count in the rate limits
   */
  settle(isRecorded: boolean, wasCalled: boolean): void;
}

/** Admits every request, for a gateway without limits. */
export const withoutLimits: Admission = { admit: () => undefined, admitRequest: () => {}, hasRoom: () => true };

/** Tokens of earlier turns in front of the request's own input. */
export interface EarlierTokens {
  readonly likely: number;
  /** Computed where bounds of costs are needed. @returns undefined when there is no bound */
  most(): number | undefined;
}

/** The reservation in the caller's budgets. */
export interface Reservation {
  /** Whether any budget counts the cost. */
  readonly isCounted: boolean;
  /**
   * Replaces the estimate by this amount. @param nano nano-dollars. @param bound nano-dollars that the cost cannot exceed;
   * undefined when there is no such bound, or it is not needed. @throws Refusal (429)
   */
  reserve(nano: number, bound: number | undefined): void;
  /** Adds the earlier turns to the estimate and to the bound. @throws Refusal (429) */
  expectEarlierTurns(tokens: EarlierTokens): void;
}
