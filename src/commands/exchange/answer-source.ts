/** The answer to a request, from a provider or from the record, on its way to the client. */
import type { Ticket } from '../model-request/admission.ts';
import type { ParsedRequest } from '../model-request/parsed-request.ts';
import type { Target } from '../model-request/target.ts';
import type { Refusal } from '../refusal.ts';
import type { CallResult, Outcome } from './outcome.ts';
import type { ExchangePolicy } from './policy.ts';

/** The answer of a provider, or the refusal of the last provider that was called. */
export interface ProviderAnswer {
  readonly source: 'provider';
  readonly target: Target;
  readonly result: CallResult;
  readonly parsedRequest: ParsedRequest;
  readonly policy: ExchangePolicy;
  readonly ticket: Ticket;
}

/** The answer that a guardrail gave in the prompt phase: no provider was called. */
export interface GuardrailAnswer {
  readonly source: 'guardrail';
  readonly text: string;
  /** The target that would have been called. */
  readonly target: Target;
  readonly parsedRequest: ParsedRequest;
  readonly policy: ExchangePolicy;
  readonly ticket: Ticket;
}

/** The answer to an earlier request with the same idempotency key, generated again from its record. */
export interface RecordedAnswer {
  readonly source: 'record';
  /**
   * The exchange that produced the answer; undefined when the client left or the gateway stopped before there was
   * one.
   */
  readonly exchangeId: string | undefined;
  /** The model that the earlier request named. */
  readonly requestedModel: string;
  readonly stream: boolean;
  /** The attempt that gave the answer. */
  readonly attempt: { readonly attempt: number; readonly provider: string; readonly model?: string | undefined };
  /** `last`: the answer is whole. Ends without it when the client leaves or the gateway stops. */
  readonly parts: AsyncIterable<ReplayedPart>;
}

export type ReplayedPart =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'end' /** Why it is not whole. */; readonly broken: Refusal | undefined };

export type Answer = ProviderAnswer | GuardrailAnswer | RecordedAnswer;

/** An answer that was sent except for the bytes that must wait until the end of the exchange is on disk. */
export type DeliveredAnswer =
  | { readonly source: 'provider'; readonly answer: ProviderAnswer; readonly outcome: Outcome }
  | { readonly source: 'guardrail'; readonly answer: GuardrailAnswer }
  | {
      readonly source: 'record';
      readonly answer: RecordedAnswer;
      readonly end: 'whole' | 'broken' | 'early';
      readonly broken: Refusal | undefined;
      /** The bytes that remain to be sent to the client. */
      readonly rest: Buffer | undefined;
      readonly bytes: number;
    };
