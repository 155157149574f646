/** One request as it is put to one provider. */
import type { LogUnavailable } from '../../events/log.ts';
import type { Dialect, ForwardCall } from '../../providers/provider.ts';
import type { Refusal } from '../refusal.ts';
import type { Relay } from './relay.ts';

interface Way {
  /** A fresh relay for each attempt: it holds the state of one answer. */
  relay(): Relay;
  /** Another way to ask, when the provider's refusal shows that it does not have the route of this one. */
  instead?(refusal: Refusal): Promise<Plan> | undefined;
}

/** A model request in a dialect that the provider speaks. */
export interface ModelPlan extends Way {
  readonly kind: 'model';
  /** The dialect spoken to the provider. */
  readonly dialect: Dialect;
  readonly body: Buffer;
  /** Of the client's headers those that the provider is to get: lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request that is passed on as it is, and so is its answer, of whatever kind. */
export interface ForwardPlan extends Way {
  readonly kind: 'forward';
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

/** A request body on its way to the provider. */
export interface Upload extends AsyncIterable<Buffer> {
  /** Why it broke off, when it was not the provider who did it. */
  readonly failure: Refusal | LogUnavailable | undefined;
}
