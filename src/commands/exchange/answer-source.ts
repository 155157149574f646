/** The answer to a request, from a provider or from the record, on its way to the client. */

import type { z } from 'zod';
import type { usageRecorded } from '../../events/catalogue/exchange.ts';
import type { EpochMs } from '../../events/event.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { Refusal } from '../refusal.ts';
import type { PastAttempt } from './dialect.ts';
import type { CallResult, Outcome } from './plan.ts';
import type { AnswerTemplate } from './reissuing/reissued-answer.ts';
import type { GivenAnswer } from './response-stream.ts';

/** The answer of a provider, or the refusal of the last provider that was called. */
export interface ProviderAnswer {
  readonly source: 'provider';
  readonly target: Target;
  readonly result: CallResult;
}

/** An answer of the gateway itself, for example of a guardrail in the prompt phase: no provider was called. */
export interface OwnAnswer {
  readonly source: 'gateway';
  given(past: PastAttempt): GivenAnswer;
  /** The target that would have been called. */
  readonly target: Target;
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

/** Where the record of a cached answer is. */
export interface CachedEntry {
  /** Of the request that was answered. */
  readonly digest: string;
  /** The exchange that a provider answered. */
  readonly exchangeId: string;
  readonly storedAt: EpochMs;
}

/** A recorded answer that can be sent to further callers. */
export interface CachedContent {
  readonly template: AnswerTemplate;
  /** What the answer used; undefined when its workflow records no usage. */
  readonly usage: z.infer<typeof usageRecorded.data> | undefined;
  readonly finishReason: string | null;
}

/** The answer to an equal request, generated from the record of its exchange, under ids and times of this one. */
export interface CachedAnswer {
  readonly source: 'cache';
  readonly cacheType: 'exact' | 'semantic';
  /** Semantic: cosine similarity of the embedded texts. */
  readonly similarity?: number | undefined;
  readonly entry: CachedEntry;
  readonly content: CachedContent;
  /** The target that would have been called. */
  readonly target: Target;
}

export type ReplayedPart =
  | { readonly kind: 'bytes'; readonly bytes: Buffer }
  | { readonly kind: 'end' /** Why it is not whole. */; readonly broken: Refusal | undefined };

export type Answer = ProviderAnswer | OwnAnswer | RecordedAnswer | CachedAnswer;

/** An answer that was sent except for the bytes that must wait until the end of the exchange is on disk. */
export type DeliveredAnswer =
  | { readonly source: 'provider'; readonly answer: ProviderAnswer; readonly outcome: Outcome }
  | { readonly source: 'gateway'; readonly answer: OwnAnswer }
  | { readonly source: 'cache'; readonly answer: CachedAnswer }
  | {
      readonly source: 'record';
      readonly answer: RecordedAnswer;
      readonly end: 'whole' | 'broken' | 'early';
      readonly broken: Refusal | undefined;
      /** The bytes that remain to be sent to the client. */
      readonly rest: Buffer | undefined;
      readonly bytes: number;
    };
