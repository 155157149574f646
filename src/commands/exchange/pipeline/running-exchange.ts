/** One exchange while it runs: one object, which every step of the pipeline completes. */

import type { RequestReservation } from '../../model-request/admission.ts';
import type { Client, ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Route, Target } from '../../model-request/routing-types.ts';
import type { OwnAnswer } from '../answer-source.ts';
import type { NewExchange, PendingResponse, Resumed } from '../background/background-response.ts';
import type { CachePlace } from '../caching/store-answer.ts';
import type { EarlierTurns, ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { ExchangeGuard, GuardedEndpoint } from '../guarding/exchange-guard.ts';
import type { AttemptEnd } from '../plan.ts';
import type { CachePolicy, ExchangePolicy } from '../policy.ts';
import type { KeyClaim } from '../record/idempotency-key.ts';
import type { BeforePlugins } from '../request-plugin.ts';
import type { ExchangeDependencies } from './dependencies.ts';

/** @param isRecorded whether the end of the exchange, with what it has spent, is on disk */
type Release = (isRecorded: boolean) => void;

export class RunningExchange {
  readonly deps: ExchangeDependencies;
  readonly dialect: ExchangeDialect;
  /** Replaced when plugins change it. */
  request: ModelRequest;
  readonly record: ExchangeRecord;
  readonly resumed: Resumed | undefined;
  /** Of the reservations, places and permits that the exchange holds, and always releases at its end. */
  #releases: Release[] = [];
  /** The client that gets the answer. Replaced when the exchange continues without it. */
  client: Client;
  /** Undefined until the body is parsed. */
  parsedRequest: ParsedRequest | undefined;
  /** The client's values of what plugins changed; undefined when no plugin ran. */
  beforePlugins: BeforePlugins | undefined;
  /** The claim to append with the request; undefined for a request without an idempotency key. */
  claim: KeyClaim | undefined;
  /** The turns that the request continues; undefined when it continues nothing. */
  history: EarlierTurns | undefined;
  /** Releases the limits that are held while guardrails evaluate the request; undefined when none are held. */
  releaseHeld: (() => void) | undefined;
  /** The request as its guardrails let it pass; undefined when none runs. */
  guarded: GuardedRequest | undefined;
  /** Whether the answer was looked for in the response cache, and not found. */
  hasMissedCache = false;
  /** Where the answer may be cached; undefined where it must not be. */
  cachePlace: CachePlace | undefined;
  /** The background response, once its id is on record. */
  pendingResponse: PendingResponse | undefined;
  /** The target that was called last. */
  target: Target | undefined;
  /** Called with the end of an answer that was not whole when its provider was called. */
  readonly whenDelivered: ((end: AttemptEnd) => void)[] = [];

  constructor(deps: ExchangeDependencies, { dialect, request, record, client }: NewExchange, resumed?: Resumed) {
    this.deps = deps;
    this.dialect = dialect;
    this.request = request;
    this.record = record;
    this.client = client;
    this.resumed = resumed;
  }

  /** Calls `release` once, at the end of the exchange, or of what it has held so far. The last one is called first. */
  atEnd(release: Release): void {
    this.#releases.push(release);
  }

  release(isRecorded: boolean): void {
    const releases = this.#releases;
    this.#releases = [];
    for (let last = releases.pop(); last !== undefined; last = releases.pop()) last(isRecorded);
  }
}

// What the exchange has after the steps of the pipeline.

export interface RequestParsed extends RunningExchange {
  parsedRequest: ParsedRequest;
}

export interface Routed extends RequestParsed {
  readonly route: Route;
  /** Whether the model determined the candidates, and not the route of the request. */
  readonly isByModel: boolean;
}

export interface Governed extends Routed {
  readonly policy: ExchangePolicy;
}

export interface Admitted extends Governed {
  /** The reservation; released at the end of the exchange. Undefined when no limit and no budget counts the request. */
  readonly reservation: RequestReservation | undefined;
}

export function isGoverned(exchange: RunningExchange): exchange is Governed {
  return 'policy' in exchange;
}

export function isAdmitted(exchange: RunningExchange): exchange is Admitted {
  return 'reservation' in exchange;
}

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

/** The endpoints whose answers the response cache keeps. */
export const cachedEndpoints: ReadonlySet<string> = new Set([
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/embeddings',
]);

/** Undefined for a request whose answer must not be shared, or is not recorded with its bytes. */
export function cachePolicyOf(exchange: Governed): CachePolicy | undefined {
  const { dialect, request, resumed, parsedRequest, policy, history, guarded, deps } = exchange;
  if (deps.cache === undefined || policy.cache === undefined) return undefined;
  if (!cachedEndpoints.has(dialect.endpoint) || resumed !== undefined || request.caller.origin !== undefined)
    return undefined;
  if (guarded?.answer !== undefined || parsedRequest.json['background'] === true) return undefined;
  if (dialect.runsTools?.(parsedRequest)) return undefined;
  if (history === undefined) return policy.cache;
  // The chain of a cached response is replayed from the record, so the response before it has to be there.
  if (history.kind !== 'response' || history.isRemembered === true) return undefined;
  return history.head === undefined ? undefined : policy.cache;
}
