/** The exchange pipeline's dependencies on the rest of the gateway. */
import { setTimeout as sleep } from 'node:timers/promises';
import { AuxiliaryCalls, EmbeddingCalls } from '../commands/auxiliary-calls/auxiliary-calls.ts';
import type { ResumableExchange } from '../commands/exchange/background/background-response.ts';
import { DetachedClients } from '../commands/exchange/delivery/detached-client.ts';
import type { ExchangeDialect } from '../commands/exchange/dialect.ts';
import type { ExchangeDependencies, ExchangeSummary } from '../commands/exchange/pipeline/dependencies.ts';
import { resumeExchange, runExchange } from '../commands/exchange/pipeline/run-exchange.ts';
import { RefusedRequests } from '../commands/exchange/record/refused-requests.ts';
import { type Client, createSessions, type ModelRequest } from '../commands/model-request/model-request.ts';
import type { Target } from '../commands/model-request/routing-types.ts';
import type { Config } from '../config/config.ts';
import { mintEventId } from '../events/event-id.ts';
import type { EventLog } from '../events/log.ts';
import type { BodyLimits } from '../http/bodies.ts';
import type { Clients } from '../http/client-address.ts';
import type { Metrics } from '../http/metrics.ts';
import { OpenExchanges } from '../http/open-exchanges.ts';
import { createRequestTags } from '../http/request-head.ts';
import type { TaggingState } from '../projections/keys.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';

/** Derived from the configuration and the clock, not from another component. */
type Derived =
  | 'recordBeforeCall'
  | 'maxAnswerBytes'
  | 'streamLimits'
  | 'newId'
  | 'random'
  | 'wait'
  | 'trace'
  | 'ended'
  | 'responseNotStored';

export interface ExchangeParts extends Omit<ExchangeDependencies, Derived> {
  readonly config: Pick<Config, 'log' | 'streamLimits'>;
  readonly metrics: Pick<Metrics, 'observeExchange' | 'responseNotStored'>;
  /** Called with every exchange that ended, for plugins; undefined when none needs it. */
  readonly completed: ((summary: ExchangeSummary) => void) | undefined;
  /** Exports the exchanges; undefined where nothing is exported. */
  readonly telemetry: Pick<Telemetry, 'begin' | 'ended'> | undefined;
}

export function exchangeDependencies({
  config,
  metrics,
  completed,
  telemetry,
  ...parts
}: ExchangeParts): ExchangeDependencies {
  return {
    ...parts,
    recordBeforeCall: config.log.durability === 'strict' ? 'durable' : 'written',
    maxAnswerBytes: maxAnswerBytes(parts.log),
    get streamLimits() {
      return config.streamLimits;
    },
    newId: mintEventId,
    random: Math.random,
    wait: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
    trace: telemetry && ((request, exchangeId) => telemetry.begin(request, exchangeId)),
    ended:
      completed === undefined && telemetry === undefined
        ? metrics.observeExchange
        : (summary) => {
            metrics.observeExchange(summary);
            completed?.(summary);
            telemetry?.ended(summary);
          },
    responseNotStored: (provider) => metrics.responseNotStored(provider),
  };
}

/** The size limits of requests and answers: those held completely in memory are recorded in one event. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** Upper bound of an event's size beside its body. */
const ENVELOPE_BYTES = 1024 * 1024;

type SizedLog = Pick<EventLog, 'capabilities'>;

export function bodyLimits({ server }: Config, log: SizedLog): BodyLimits {
  return { ...server.bodyLimits, model: Math.min(server.bodyLimits.model, largestBody(log)) };
}

function maxAnswerBytes(log: SizedLog): number {
  return Math.min(MAX_ANSWER_BYTES, largestBody(log));
}

function largestBody(log: SizedLog): number {
  return log.capabilities.maxEventBytes - ENVELOPE_BYTES;
}

/** Model requests in this gateway: the exchange pipeline, and the exchanges that run in it now. */
interface ModelRequestsOptions extends Omit<ExchangeParts, 'config' | 'refused' | 'detached' | 'sessions'> {
  readonly config: Config;
  /** The rules that administrators set; they may change. */
  readonly tagging: { readonly state: TaggingState };
  readonly clients: Clients;
}

export type ModelRequests = ReturnType<typeof createModelRequests>;

/** Together they bound the memory of the answers to guardrails, and to the semantic cache. */
const MAX_AUXILIARY_CALLS = 256;
const MAX_AUXILIARY_ANSWER_BYTES = 1024 * 1024;

export function createModelRequests({ config, tagging, clients, ...parts }: ModelRequestsOptions) {
  const detached = new DetachedClients();
  const sessions = createSessions(config.session);
  const tags = createRequestTags(config.tagging, () => tagging.state.headers);
  const refused = new RefusedRequests({
    log: parts.log,
    alone: config.logging.refusalsPerMinute,
    onError: (error) => parts.failed(error),
  });
  const dependencies = exchangeDependencies({ ...parts, config, refused, detached, sessions });
  const exchanges = new OpenExchanges(
    config.http.stallTimeoutMs,
    () => {
      detached.cut();
      auxiliary.cut();
      embeddings.cut();
    },
    { tags, sessions, clients },
    config.server.maxConcurrentRequests,
  );
  const maxAnswerBytes = Math.min(dependencies.maxAnswerBytes, MAX_AUXILIARY_ANSWER_BYTES);
  function auxiliaryOptions(name: 'chat' | 'embeddings') {
    const dialect = parts.dialects.get(name);
    if (dialect === undefined) throw new Error(`the ${name} dialect is missing`);
    return {
      limit: MAX_AUXILIARY_CALLS,
      newId: dependencies.newId,
      run(exchangeId: string, request: ModelRequest, client: Client) {
        const own = { ...dependencies, maxAnswerBytes, newId: () => exchangeId };
        const exchange = runExchange(dialect, request, client, own);
        exchanges.track(exchange);
        return exchange;
      },
    };
  }
  const responses = parts.dialects.get('responses');
  const auxiliary = new AuxiliaryCalls(auxiliaryOptions('chat'));
  const embeddings = new EmbeddingCalls(auxiliaryOptions('embeddings'));
  return {
    /** Puts the bounds of further requests in force. */
    follow: ({ http, server }: Config) => exchanges.follow(http.stallTimeoutMs, server.maxConcurrentRequests),
    /** The model calls of guardrails. A stop waits for them like for other exchanges. */
    auxiliary,
    /** Calls the model of a response whose tools the gateway runs. */
    callModel(request: ModelRequest, client: Client, target: Target) {
      if (responses === undefined) throw new Error('the responses dialect is missing');
      const exchange = runExchange({ ...responses, target: () => target }, request, client, dependencies);
      exchanges.track(exchange);
      return exchange;
    },
    /** The embeddings of the semantic cache, with a limit of their own. */
    embeddings,
    /** The running exchanges: a stop waits for them. */
    exchanges,
    /** The exchanges among them that continue without their clients. */
    detached,
    /** Decides which refusals are recorded one by one. */
    refused,
    /** Which headers carry labels. */
    tags,
    /** Never rejects: the client receives an answer or an error, and both are recorded. */
    run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) =>
      runExchange(dialect, request, client, dependencies),
    /** Continues an exchange that has no client. */
    resume: (run: ResumableExchange) => exchanges.track(resumeExchange(run, dependencies)),
  };
}
