/** The input of an attempt and its possible results. */
import type { ProviderFailure, ProviderReply } from '../../providers/provider.ts';
import type { Ticket } from '../model-request/admission.ts';
import type { Client } from '../model-request/client.ts';
import type { RefusedTarget } from '../model-request/failed-target.ts';
import type { Target } from '../model-request/target.ts';
import type { Refusal } from '../refusal.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { Plan } from './plan.ts';
import type { LiveRelay } from './relay.ts';

export interface AttemptOptions {
  readonly target: Target;
  readonly record: ExchangeRecord;
  readonly client: Client;
  readonly requestId: string;
  readonly stream: boolean;
  readonly keepBodies: boolean;
  readonly maxAnswerBytes: number;
  readonly streamLimits: StreamLimits;
  answerHeaders(reply: ProviderReply): Record<string, string>;
  /** Absent where the provider does not count the input before it answers, or no budget counts the request. */
  readonly inputCounted?: Ticket['inputCounted'] | undefined;
}

/** The bounds of a streamed answer, from its headers on. */
export interface StreamLimits {
  readonly ms: number;
  /** Of an event stream: the gateway holds what it has to record or to evaluate of it. */
  readonly bytes: number;
}

export interface Answered {
  readonly attempt: number;
  readonly plan: Plan;
  readonly relay: LiveRelay;
  readonly received: Received;
}

export interface WholeAnswer extends Answered {
  readonly kind: 'whole';
  readonly reply: ProviderReply;
  readonly bytes: Buffer;
}

/** `cut`: the bytes sent so far cannot show that the answer is not whole, so the client's connection has to be cut. */
export type AttemptEnd =
  | WholeAnswer
  | (Answered & { readonly kind: 'streamed'; readonly reply: ProviderReply; readonly rest: Buffer[] })
  | (Answered & { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[]; readonly cut?: boolean })
  /** A guardrail ended the answer before any byte was sent to the client. */
  | (Answered & { readonly kind: 'blocked'; readonly refusal: Refusal; readonly isWhole: boolean })
  | (Answered & {
      readonly kind: 'abandoned';
      readonly rest: Buffer[];
      readonly cut?: boolean;
      /** No provider was working on the request: the last had refused, and the next was not called yet. */
      readonly notCalled?: boolean;
    });

export interface FailedAttempt {
  readonly kind: 'failed';
  readonly refusal: Refusal;
  /** The provider's status, when it answered with one. */
  readonly status?: number;
  readonly failure?: ProviderFailure;
  readonly body?: Buffer;
  readonly retryAfterMs?: number;
  /** The relay of a failed answer that reports its usage. */
  readonly spent?: LiveRelay | undefined;
  /** The provider answered and charged for it, but the answer is malformed: a retry would cost the same again. */
  readonly malformed?: boolean;
}

/**
 * A provider that has begun to answer: the status and the headers are known, and no byte has been sent to the client.
 * Nothing more is sent until `deliver` is called, which resolves at the end of the answer.
 */
export interface OpenAnswer extends Answered {
  readonly kind: 'open';
  readonly reply: ProviderReply;
  /** @throws LogUnavailable */
  deliver(): Promise<AttemptEnd>;
}

/** The result of calling one target. */
export type CallResult =
  | OpenAnswer
  | WholeAnswer
  | BlockedAnswer
  | Extract<AttemptEnd, { kind: 'abandoned' }>
  | RefusedTarget;

export type BlockedAnswer = Extract<AttemptEnd, { kind: 'blocked' }>;

/** How an exchange with a provider ended. */
export type Outcome = AttemptEnd | RefusedTarget;

/** The request's own body broke off or was too large; the provider did not fail. */
export interface FailedUpload {
  readonly kind: 'upload_failed';
  readonly refusal: Refusal;
}

export function nothingYet(): Received {
  return { chunks: 0, bytes: 0, firstByteMs: undefined };
}

/** What the provider has returned so far. */
export interface Received {
  chunks: number;
  bytes: number;
  firstByteMs: number | undefined;
  /** Tokens of the text of an answer in one piece whose provider did not count them. */
  outputTokens?: number;
}
