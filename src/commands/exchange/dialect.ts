/** What the exchange has to know of the dialect a client speaks. One file per dialect beside this one. */
import type { Provider } from '../../providers/provider.ts';
import type { Refusal } from '../refusal.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { Plan } from './relay.ts';

/** A request body, parsed once. */
export interface Asked {
  /** The selector as the client wrote it. */
  readonly model: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly stream: boolean;
  readonly json: Record<string, unknown>;
}

export type ReadResult =
  | { readonly ok: true; readonly asked: Asked }
  | { readonly ok: false; readonly refusal: Refusal };

export interface Target {
  readonly provider: Provider;
  /** The provider's own id of the model. */
  readonly model: string;
}

export interface PlanInput {
  readonly asked: Asked;
  /** The client's bytes, of which `asked.json` is the parsed form. */
  readonly body: Buffer;
  readonly target: Target;
  readonly record: ExchangeRecord;
  /** Unix seconds, for objects that carry their time of creation. */
  readonly createdAt: number;
}

export interface ExchangeDialect {
  readonly name: 'chat' | 'responses' | 'embeddings';
  readonly endpoint: string;
  read(json: unknown): ReadResult;
  /** @throws Refusal when the request cannot be put to this provider */
  plan(input: PlanInput): Plan | Promise<Plan>;
  /** Normalised input items as JSON text, for the stored response. */
  inputItems?(asked: Asked, responseId: string): string;
  /** Whether the response is to be kept. */
  keeps?(asked: Asked): boolean;
}
