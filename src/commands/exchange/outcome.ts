/** What an attempt needs, and what can come of it. */

import type { ProviderFailure, ProviderReply } from '../../providers/provider.ts';
import type { Client } from '../model-request/client.ts';
import type { RefusedTarget } from '../model-request/failed-target.ts';
import type { Target } from '../model-request/target.ts';
import type { Refusal } from '../refusal.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { Plan } from './plan.ts';
import type { Relay } from './relay.ts';

export interface AttemptOptions {
  readonly target: Target;
  readonly record: ExchangeRecord;
  readonly client: Client;
  readonly requestId: string;
  readonly stream: boolean;
  readonly keepBodies: boolean;
  readonly maxAnswerBytes: number;
  answerHeaders(reply: ProviderReply): Record<string, string>;
}

export interface Answered {
  readonly attempt: number;
  readonly plan: Plan;
  readonly relay: Relay;
  readonly received: Received;
}

export interface WholeAnswer extends Answered {
  readonly kind: 'whole';
  readonly reply: ProviderReply;
  readonly bytes: Buffer;
}

/** `cut`: what the client has so far cannot say that it is not whole, so its connection is to be cut. */
export type AttemptEnd =
  | WholeAnswer
  | (Answered & { readonly kind: 'streamed'; readonly reply: ProviderReply; readonly rest: Buffer[] })
  | (Answered & { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[]; readonly cut?: boolean })
  | (Answered & {
      readonly kind: 'abandoned';
      readonly rest: Buffer[];
      readonly cut?: boolean;
      /** No provider was at work: the last had refused, and the next was not asked yet. */
      readonly unasked?: boolean;
    });

export interface FailedAttempt {
  readonly kind: 'failed';
  readonly refusal: Refusal;
  /** The provider's status, when it answered with one. */
  readonly status?: number;
  readonly failure?: ProviderFailure;
  readonly body?: Buffer;
  readonly retryAfterMs?: number;
  /** The relay of an answer that says what it spent all the same. */
  readonly spent?: Relay | undefined;
  /** It did answer, and was paid for it, but the answer makes no sense: another one would cost the same again. */
  readonly senseless?: boolean;
}

/**
 * A provider that has begun to answer: the status and the head are known, and no byte has been sent to the client.
 * Nothing more is sent until `deliver` is called, which resolves at the end of the answer.
 */
export interface OpenAnswer extends Answered {
  readonly kind: 'open';
  readonly reply: ProviderReply;
  /** @throws LogUnavailable */
  deliver(): Promise<AttemptEnd>;
}

/** What calling one target came to. */
export type CallResult = OpenAnswer | WholeAnswer | Extract<AttemptEnd, { kind: 'abandoned' }> | RefusedTarget;

/** How an exchange with a provider ended. */
export type Outcome = AttemptEnd | RefusedTarget;

/** It was not the provider that failed: the request's own body broke off, or was too large. */
export interface FailedUpload {
  readonly kind: 'upload_failed';
  readonly refusal: Refusal;
}

export function nothingYet(): Received {
  return { chunks: 0, bytes: 0, firstByteMs: undefined };
}

/** What has come back from the provider so far. */
export interface Received {
  chunks: number;
  bytes: number;
  firstByteMs: number | undefined;
}
