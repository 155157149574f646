/** How an answer is brought back from the dialect the provider speaks to the one the client asked in. */

import type { Dialect, ForwardCall } from '../../providers/provider.ts';
import type { Frame } from '../../providers/sse.ts';
import type { EstimatedTokens } from '../pricing/pricing.ts';
import type { Refusal } from '../refusal.ts';
import type { Upload } from './recorded-upload.ts';
import type { EarlyEnd } from './stream-refusals.ts';
import type { TokenUsage } from './usage.ts';

interface Way {
  /** A fresh relay for each attempt: it holds the state of one answer. */
  relay(): Relay;
  /** Another way to ask, when the provider's refusal shows that it does not have the route of this one. */
  instead?(refusal: Refusal): Promise<Plan> | undefined;
}

/** A model request in a dialect that the provider speaks. */
export interface ModelPlan extends Way {
  /** The dialect spoken to the provider. */
  readonly dialect: Dialect;
  readonly body: Buffer;
  /** Of the client's headers those that the provider is to get: lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that is passed on as it is, and so is its answer, of whatever kind. */
export interface ForwardPlan extends Way {
  readonly dialect: 'forward' | 'passthrough';
  readonly call: Omit<ForwardCall, 'requestId' | 'signal' | 'body'>;
  readonly body: Uint8Array | Upload | undefined;
  /** Whether it may be sent twice without asking. */
  readonly repeatable: boolean;
  /** The answer's bytes are not for the record: their number and digest are kept in place of them. */
  readonly digestOnly?: boolean;
  /** A JSON answer is seen whole by its relay, however long it is, before any of it is passed on. */
  readonly readsWhole?: boolean;
  /** Whatever the provider answers with is the answer, also what looks like an error, or leads elsewhere. */
  readonly verbatim?: boolean;
  /** What a provider's refusal means, when it shows that the provider does not have this operation. */
  unsupported?(refusal: Refusal): Refusal | undefined;
}

/** One request as it is put to one provider. */
export type Plan = ModelPlan | ForwardPlan;

export interface FrameAnswer {
  /** What the client gets for this frame; undefined when it gets nothing. */
  readonly bytes?: Buffer;
  /** The client may have this, and all after it, only when everything is on disk. */
  readonly terminal: boolean;
  /** What is recorded in place of the frame's own bytes, when those held the provider's credentials. */
  readonly record?: Buffer;
  /** The provider reported a failure in mid-stream. */
  readonly refusal?: Refusal;
}

export const responseStatuses = ['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled'] as const;
export type ResponseStatus = (typeof responseStatuses)[number];

/** The status of a response object, when it is one of those there are. */
export function statusOf(response: Readonly<Record<string, unknown>>): ResponseStatus | undefined {
  return responseStatuses.find((status) => status === response.status);
}

/** An answer worth keeping: goes to `response-<id>`. */
export interface StorableResponse {
  readonly id: string;
  readonly status: ResponseStatus;
  /** The response object as JSON text. */
  readonly json: string;
  /** Its output items, when they are at hand. */
  readonly output?: readonly unknown[];
}

/** What a provider goes on with after its answer: what it costs is known when that is over. */
export interface DeferredWork {
  readonly kind: 'response' | 'batch';
  /** The provider's own id of it. */
  readonly id: string;
  /** Of a batch whose input was read: what its requests ask. */
  readonly parts?: readonly WorkPart[] | undefined;
}

/** What of such work is asked of one model. */
export interface WorkPart extends EstimatedTokens {
  readonly model: string;
  readonly answers: number;
}

/** Who answers, and how its credentials are taken out of what it says. */
export interface Answering {
  readonly name: string;
  redact?(text: string): string;
}

/** The bytes without the provider's credentials, which some providers repeat in their errors. */
export function redacted(bytes: Buffer, provider: Answering): Buffer {
  // Credentials are ASCII, so bytes can be looked at as Latin-1 and come back as they were.
  const text = bytes.toString('latin1');
  const clean = provider.redact?.(text) ?? text;
  return clean === text ? bytes : Buffer.from(clean, 'latin1');
}

/** Pieces of a client's stream as one; undefined when there are none. */
export function joined(pieces: readonly Buffer[]): Buffer | undefined {
  return pieces.length > 1 ? Buffer.concat(pieces) : pieces[0];
}

export interface Relay {
  /** The whole answer, as the client gets it. @throws Refusal when it makes no sense */
  whole(bytes: Buffer, parsed: unknown): Buffer;
  frame(frame: Frame): FrameAnswer;
  /**
   * The provider's stream ended in an orderly way: the rest of the client's stream. `cut` when it ended too early to
   * be whole.
   */
  finish(): { readonly bytes?: Buffer; readonly cut: boolean };
  /** The stream broke, or reported `refusal`: what the client is told of it. */
  broken?(refusal: Refusal): Buffer | undefined;
  /** The answer is ended before its provider ended it: the rest of the client's stream, if there is a client. */
  abandon?(end: EarlyEnd): Buffer | undefined;
  usage(): TokenUsage;
  /** Undefined when the answer is all there is, as nearly always. */
  goesOn?(): DeferredWork | undefined;
  /** Which model the answer says it is of, where nobody read the request for it. */
  model?(): string | undefined;
  /** The id that the provider gave its answer; undefined when there is none. */
  answerId?(): string | undefined;
  /** Why the model stopped, in the dialect's own word. */
  finishReason?(): string | null;
  /** The response object to keep, when the client's dialect has such a thing. */
  response?(): StorableResponse | undefined;
}
