/** One exchange while it runs, and the input and result of each step of the pipeline. */

import type { Ticket } from '../../model-request/admission.ts';
import type { Client, ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Route, Target } from '../../model-request/routing-types.ts';
import type { Answer, OwnAnswer, ProviderAnswer } from '../answer-source.ts';
import type { SentRequests } from '../attempts/retry-loop.ts';
import type { NewExchange, PendingResponse, Resumed } from '../background/background-response.ts';
import type { CachePlace } from '../caching/store-answer.ts';
import type { EarlierTurns, ExchangeDialect } from '../dialect.ts';
import { type ExchangeRecord, ExchangeScope } from '../exchange-record.ts';
import type { ExchangeGuard, GuardedEndpoint } from '../guarding/exchange-guard.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { KeyClaim } from '../record/idempotency-key.ts';
import type { BeforePlugins } from '../request-plugin.ts';
import type { ExchangeDependencies } from './dependencies.ts';

export class RunningExchange {
  readonly dialect: ExchangeDialect;
  /** Replaced when plugins change it. */
  request: ModelRequest;
  /** The client's values of what plugins changed; undefined when no plugin ran. */
  beforePlugins: BeforePlugins | undefined;
  readonly record: ExchangeRecord;
  readonly resumed: Resumed | undefined;
  /** Id of this gateway. */
  readonly gateway: string | undefined;
  readonly scope = new ExchangeScope();
  /** The client that gets the answer. Replaced when the exchange continues without it. */
  client: Client;
  /** The background response, once its id is on record. */
  pendingResponse: PendingResponse | undefined;
  /** The request as its guardrails let it pass; undefined when none runs. */
  guarded: GuardedRequest | undefined;
  /** Whether the answer was looked for in the response cache, and not found. */
  hasMissedCache = false;
  /** Where the answer may be cached; undefined where it must not be. */
  cachePlace: CachePlace | undefined;
  /** The requests to providers, once one was called. */
  sent: SentRequests | undefined;
  /** The target that was called last. */
  target: Target | undefined;

  constructor({ dialect, request, record, client, gateway }: NewExchange, resumed?: Resumed) {
    this.dialect = dialect;
    this.request = request;
    this.record = record;
    this.client = client;
    this.resumed = resumed;
    this.gateway = gateway;
  }
}

// The result of each step of the pipeline: one type per stage, which extends the one before.

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

/** A request as the guardrails of the prompt phase let it pass. */
export interface GuardedRequest {
  readonly guard: ExchangeGuard;
  readonly endpoint: GuardedEndpoint;
  /** The request to send. */
  readonly parsedRequest: ParsedRequest;
  readonly body: Buffer;
  readonly headers: Record<string, string>;
  readonly merged: { readonly earlier: number } | undefined;
  /** The turns that the provider looks up itself. */
  readonly history: EarlierTurns | undefined;
  /** The answer of a guardrail, in place of a provider's. */
  readonly answer: OwnAnswer['given'] | undefined;
}

/**
 * One step of the pipeline. It returns the input of the next step, or an answer, with which the pipeline continues at
 * `deliver`. It does not call another step. @throws Refusal, LogUnavailable
 */
export interface Step<In extends Arrived, Out extends Stage | Answer> {
  readonly name: string;
  run(context: In, deps: ExchangeDependencies): Out | Answer | Promise<Out | Answer>;
}

/** A step as the pipeline runs it. `inOrder` checks its input type at compile time. */
interface AnyStep {
  readonly name: string;
  run(context: never, deps: ExchangeDependencies): Stage | Answer | Promise<Stage | Answer>;
}

type Steps = readonly [
  Step<Arrived, RequestParsed>,
  Step<RequestParsed, RequestParsed>,
  Step<RequestParsed, KeyLookedUp>,
  Step<KeyLookedUp, Routed>,
  Step<Routed, Governed>,
  Step<Governed, Recorded>,
  Step<Recorded, WithHistory>,
  Step<WithHistory, Guarded>,
  Step<Guarded, Guarded>,
  Step<Guarded, Admitted>,
  Step<Admitted, ProviderAnswer | OwnAnswer>,
];

/** The steps of the pipeline, each of which takes the result of the step before. */
export function inOrder(...steps: Steps): readonly AnyStep[] {
  return steps;
}

export function isAnswer(value: Stage | Answer): value is Answer {
  return 'source' in value;
}
