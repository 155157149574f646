/** The result of each step of the pipeline: one type per stage, which extends the one before. */
import type { Ticket } from '../../model-request/admission.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Route } from '../../model-request/routing-types.ts';
import type { EarlierTurns } from '../history.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { KeyClaim } from '../record/idempotency-key.ts';
import type { GuardedRequest } from './guarded-request.ts';
import type { RunningExchange } from './running-exchange.ts';

export interface Arrived {
  readonly exchange: RunningExchange;
}

export interface RequestParsed extends Arrived {
  readonly parsedRequest: ParsedRequest;
}

export interface KeyLookedUp extends RequestParsed {
  /** The claim to append with the request; undefined for a request without an idempotency key. */
  readonly claim: KeyClaim | undefined;
}

export interface Routed extends KeyLookedUp {
  readonly route: Route;
  /** Whether the model determined the candidates, and not the route of the request. */
  readonly isByModel: boolean;
}

export interface Governed extends Routed {
  readonly policy: ExchangePolicy;
}

export interface Recorded extends Governed {
  /** `request.received` is noted, and goes to the log with the next append. */
  readonly isRecorded: true;
}

export interface WithHistory extends Recorded {
  /** Undefined when the request continues nothing. */
  readonly history: EarlierTurns | undefined;
}

export interface Guarded extends WithHistory {
  /** The request as its guardrails let it pass; undefined when no guardrail runs. */
  readonly guarded?: GuardedRequest | undefined;
}

export interface Admitted extends Guarded {
  /** The reservation; released by the scope of the exchange. */
  readonly ticket: Ticket;
}

export type Stage =
  | Arrived
  | RequestParsed
  | KeyLookedUp
  | Routed
  | Governed
  | Recorded
  | WithHistory
  | Guarded
  | Admitted;
