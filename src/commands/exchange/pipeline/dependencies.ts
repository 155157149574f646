/** What the exchange needs of the rest of the gateway. */
import type { EventLog } from '../../../events/log.ts';
import type { Provider } from '../../../providers/provider.ts';
import type { Admission } from '../../model-request/admission.ts';
import type { ModelRequest, Sessions } from '../../model-request/model-request.ts';
import type { CheckSent } from '../../model-request/references.ts';
import type { Router, Target } from '../../model-request/routing-types.ts';
import type { TokenUsage } from '../../model-request/usage.ts';
import type { Pricing } from '../../pricing/pricing.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import type { CircuitBreakers } from '../attempts/circuit-breaker.ts';
import type { RetryPolicy } from '../attempts/retry-loop.ts';
import type { OpenExchangeTracker } from '../background/open-exchange-tracker.ts';
import type { ResponseCache } from '../caching/response-cache.ts';
import type { DetachedClients } from '../delivery/detached-client.ts';
import type { ExchangeTrace } from '../exchange-record.ts';
import type { GuardedEndpoints } from '../guarding/guarded-endpoints.ts';
import type { StreamLimits } from '../plan.ts';
import type { ExchangePolicy } from '../policy.ts';
import type { Dialects } from '../record/read-exchange.ts';
import type { RefusedRequests } from '../record/refused-requests.ts';
import type { RequestPlugin } from '../request-plugin.ts';

export interface ExchangeDependencies {
  readonly log: EventLog;
  /** Id of this gateway, which owns the exchanges that it begins. */
  readonly gateway?: string | undefined;
  /** Undefined when the gateway does not cache answers. */
  readonly cache?: ResponseCache | undefined;
  readonly archive: ResponseArchive;
  /** The endpoints whose requests guardrails can read. */
  readonly guardedEndpoints: GuardedEndpoints;
  /** Every dialect by its name, for exchanges that are read again from the record. */
  readonly dialects: Dialects;
  /** In the order in which they run. */
  readonly requestPlugins: readonly RequestPlugin[];
  /** The exchanges that continue without their clients. */
  readonly detached: DetachedClients;
  readonly router: Router;
  readonly admission: Admission;
  /** Checks the stored objects that a request names, before its provider gets it. */
  readonly checkSent: CheckSent;
  /** Finds the session that a body names. */
  readonly sessions?: Pick<Sessions, 'inBody'>;
  readonly pricing: Pricing;
  /** @param first the first candidate; undefined for a request that is refused before it has one */
  policyOf(request: Pick<ModelRequest, 'caller'>, first: Target | undefined): ExchangePolicy;
  /** The policy of a recorded version of a workflow, active or not. Resolves with undefined for an unknown one. */
  policyAgain(workflow: string): Promise<ExchangePolicy | undefined>;
  /** The retry policies and the circuit breakers of the providers, by name. */
  readonly resilience: ReadonlyMap<string, Resilience>;
  readonly recordBeforeCall: 'written' | 'durable';
  readonly maxAnswerBytes: number;
  readonly streamLimits: StreamLimits;
  newId(): string;
  random(): number;
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** Begins the trace of an exchange. Undefined where nothing is exported. */
  readonly trace?: ((request: ModelRequest, exchangeId: string) => ExchangeTrace) | undefined;
  /** Called once for every exchange, after it ended. Must not throw. */
  ended(summary: ExchangeSummary): void;
  readonly open: Pick<OpenExchangeTracker, 'begun' | 'over' | 'leftOpen'>;
  /** Decides which refusals are recorded one by one, and counts the others. */
  readonly refused: Pick<RefusedRequests, 'recordsAlone'>;
  /** Called when a response was generated and could not be recorded. */
  responseNotStored(provider: Provider | undefined): void;
  /** Called with unexpected errors, for the operator's own log. */
  failed(error: unknown): void;
}

export interface Resilience {
  readonly retry: RetryPolicy;
  readonly breakers: Pick<CircuitBreakers, 'of' | 'refuses' | 'state' | 'notClosed'>;
}

export interface ExchangeFigures {
  readonly endpoint: string;
  readonly provider: string | undefined;
  readonly model: string | undefined;
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstByteMs: number | undefined;
  readonly usage: TokenUsage | undefined;
  /** How the response cache served the request; undefined when it was not looked up. */
  readonly cache?: 'exact' | 'semantic' | 'miss' | undefined;
  /** Whether the answer is kept in the response cache. */
  readonly isStored?: boolean;
}

export interface ExchangeSummary extends ExchangeFigures {
  readonly exchangeId: string;
  readonly requestId: string;
  readonly userPath: string;
  readonly labels: readonly string[];
  /** US dollars of all its attempts; undefined when it is not known. */
  readonly cost: number | undefined;
}
