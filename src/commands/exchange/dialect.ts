/** What the exchange has to know of the dialect a client speaks. One file per dialect beside this one. */

import type { StreamWrite } from '../../events/log.ts';
import type { ProviderReply } from '../../providers/provider.ts';
import type { Reservation } from '../model-request/admission.ts';
import type { CheckFiles } from '../model-request/check-files.ts';
import type { ModelRequest } from '../model-request/model-request.ts';
import type { Asked, ReadResult } from '../model-request/parsed-request.ts';
import type { Answering } from '../model-request/redacted.ts';
import type { Target } from '../model-request/target.ts';
import type { Units } from '../model-request/units.ts';
import type { Sight } from '../visibility.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { EarlierTurns } from './history.ts';
import type { Plan } from './plan.ts';
import type { ExchangePolicy } from './policy.ts';
import type { Relay } from './relay.ts';

export interface PlanInput {
  readonly asked: Asked;
  /** The client's bytes, of which `asked.json` is the parsed form. */
  readonly body: Buffer;
  /** Of the client's request: lower-case names, credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
  readonly target: Target;
  /** What the client may refer to. */
  readonly sight: Sight;
  readonly record: ExchangeRecord;
  readonly policy: ExchangePolicy;
  /** What the request continues; undefined when it continues nothing. */
  readonly history: EarlierTurns | undefined;
  readonly ticket: Reservation;
  /** Unix seconds, for objects that carry their time of creation. */
  readonly createdAt: number;
}

/** An attempt that was made, as far as its relay has to know it: nothing but what is on the record. */
export interface PastAttempt {
  readonly asked: Asked;
  readonly exchangeId: string;
  /** Unix seconds. */
  readonly createdAt: number;
  readonly provider: Answering;
  readonly providerType: string;
  /** The provider's own id of the model; empty when no model is asked. */
  readonly model: string;
  /** What was spoken to the provider. */
  readonly dialect: string;
  /** Whether earlier turns were put in front of the input. */
  readonly historyReplayed: boolean;
  /** Unix seconds. */
  now(): number;
}

export interface ExchangeDialect {
  readonly name: 'chat' | 'responses' | 'embeddings' | 'messages' | 'forward' | 'passthrough';
  readonly endpoint: string;
  read(json: unknown): ReadResult;
  /** Instead of `read`, for a body that is more than one JSON text. It is the dialect that reads it, and records it. */
  take?(request: ModelRequest): ReadResult | Promise<ReadResult>;
  /** Who is asked, where that is not for the model to say. @throws Refusal when nobody can be */
  target?(asked: Asked): Target | Promise<Target>;
  /** Loads what the request continues; undefined when it continues nothing. Rejects with a Refusal when it is not found. */
  loadHistory?(input: Pick<PlanInput, 'asked' | 'sight'>): Promise<EarlierTurns> | undefined;
  /** Whether the caller may use the files that the request names. Called before `plan`. */
  readonly checkFiles?: CheckFiles;
  /** @throws Refusal when the request cannot be put to this provider */
  plan(input: PlanInput): Plan | Promise<Plan>;
  /** The relay of an attempt that was made before: the same bytes from the provider give the client the same bytes. */
  relayAgain(past: PastAttempt): Relay;
  /** The headers of the answer, but for the ids of the exchange; without it, the content type alone. */
  answerHeaders?(reply: ProviderReply, request: ModelRequest): Record<string, string>;
  /** What is charged for beside tokens, as far as the request tells. */
  units?(asked: Asked): Units | undefined;
  /** Not every request spends tokens: usage is recorded only where a provider reports some. */
  readonly mayBeFree?: boolean;
  /** Normalised input items as JSON text, for the stored response. */
  inputItems?(asked: Asked, responseId: string): string;
  /** Whether the response is to be kept. */
  keeps?(asked: Asked): boolean;
  /**
   * What else is kept of a response that succeeded, in the same append as its end: the turn, in its conversation.
   * Undefined for a request that is no part of one.
   */
  turn?(
    asked: Pick<Asked, 'json'>,
    relay: Pick<Relay, 'response'>,
    by: Pick<ExchangeRecord, 'id' | 'context'> & { readonly sight: Sight },
  ): Promise<readonly StreamWrite[]> | undefined;
  /**
   * The response that the gateway is to make while nobody waits for it; undefined for a request that is answered in
   * the ordinary way.
   */
  background?(input: PlanInput): BackgroundResponse | undefined;
}

/** A response that is made in the background: known under its id from the beginning. */
export interface BackgroundResponse {
  readonly id: string;
  /** The response object as it stands before anything was said. */
  readonly shell: object;
}
