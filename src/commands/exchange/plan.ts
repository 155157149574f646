/** One request as it is sent to one provider. */
import type { LogUnavailable } from '../../events/log.ts';
import type { Dialect, ForwardCall } from '../../providers/provider.ts';
import type { NamedValue } from '../model-request/references.ts';
import type { Refusal } from '../refusal.ts';
import type { ExpectedAnswer } from './answer-shape.ts';
import type { LiveRelay } from './relay.ts';

interface PlanBase<R extends LiveRelay> {
  /** A fresh relay for each attempt: it holds the state of one answer. */
  relay(attempt: number): R;
  /** Another plan for the same request, used when the provider's refusal shows that it lacks the route of this one. */
  instead?(refusal: Refusal): Promise<Plan<R>> | undefined;
  /** The request is sent so many times at once, and the answers are one (see parallel-calls.ts). Default 1. */
  readonly calls?: number | undefined;
  /** Guardrails evaluate its answer. */
  readonly isGuarded?: true;
  /** The most tokens of each answer, where a budget has limited them. */
  readonly outputLimit?: number;
  /** How many vectors were requested, of embeddings. */
  readonly vectors?: number;
}

/** A model request in a dialect that the provider speaks. */
export interface ModelPlan<R extends LiveRelay = LiveRelay> extends PlanBase<R> {
  readonly kind: 'model';
  /** The dialect spoken to the provider. */
  readonly dialect: Dialect;
  readonly body: Buffer;
  /** The client's headers that the provider gets: lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that is forwarded unchanged, and so is its answer, of any kind. */
export interface ForwardPlan<R extends LiveRelay = LiveRelay> extends PlanBase<R> {
  readonly kind: 'forward';
  readonly dialect: 'forward' | 'passthrough';
  /** What its answer must contain. */
  readonly answer: ExpectedAnswer;
  readonly call: Omit<ForwardCall, 'requestId' | 'signal' | 'body'>;
  readonly body: Uint8Array | Upload | undefined;
  /** Whether the gateway may send the request twice. */
  readonly repeatable: boolean;
  /** Of a form: the fields before its files. The record keeps size and digest of the body instead of the bytes. */
  readonly fields?: readonly NamedValue[];
  /** The record keeps the number and the digest of the answer's bytes instead of the bytes. */
  readonly digestOnly?: boolean;
  /** The answer is read whole, however long it is, before any of it is passed on. */
  readonly readsWhole?: boolean;
  /** Every answer of the provider is passed on as the answer, including errors and redirects. */
  readonly verbatim?: boolean;
  /** The refusal for the client, when the provider's refusal shows that it does not have this operation. */
  unsupported?(refusal: Refusal): Refusal | undefined;
}

/** One request as it is sent to one provider. A dialect makes one with plain relays; guardrails make guarded ones of it. */
export type Plan<R extends LiveRelay = LiveRelay> = ModelPlan<R> | ForwardPlan<R>;

/** The content type of the request to the provider; undefined for `application/json`. */
export function sentContentType(plan: Plan): string | undefined {
  if (plan.kind === 'model' || plan.body === undefined) return undefined;
  const contentType = plan.call.headers['content-type'];
  return contentType === 'application/json' ? undefined : contentType;
}

/** A request body that is streamed to the provider. */
export interface Upload extends AsyncIterable<Buffer> {
  /** Why the body broke off, unless the provider ended it. */
  readonly failure: Refusal | LogUnavailable | undefined;
}
