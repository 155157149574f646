/**
 * The gateway's metrics, for Prometheus. Recording an exchange costs the request path about two microseconds; values
 * that can be read at a scrape are not recorded.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { CircuitState } from '../commands/exchange/attempts/circuit-breaker.ts';
import type { ExchangeFigures } from '../commands/exchange/pipeline/dependencies.ts';
import type { LogEngineStatus } from '../events/log.ts';
import { mediaAnswer, type Routes } from './api/route-schema.ts';
import { type MetricFigures, metricFiguresOf } from './metric-figures.ts';

/** Sources read at a scrape. A source that is absent or throws leaves its metrics out. */
export interface MetricSources {
  inFlight?(): number;
  liveClients?(): number;
  log?(): LogFigures | Promise<LogFigures>;
  providers?(): Iterable<{ readonly name: string; readonly up?: boolean; readonly circuit?: CircuitState }>;
  /** Requests and targets refused by budgets, rate limits and the limit of open requests, by code. */
  refused?(): ReadonlyMap<string, number>;
  /** Selections that route strategies could not make. */
  routeFallbacks?(): Iterable<{ readonly strategy: string; readonly reason: string; readonly count: number }>;
  projections?(): Iterable<{ readonly name: string; readonly phase: string; readonly lagMs: number }>;
  /** Events that are not in ClickHouse yet; undefined when unknown, or when analytics is off. */
  analytics?(): { readonly health: string; readonly lagEvents: number | undefined } | undefined;
}

export interface LogFigures {
  readonly available: boolean;
  /** Only of engines that number their events. */
  readonly head?: string;
  readonly unsyncedBytes?: number;
  /** Of full segments that wait to be compressed. */
  readonly uncompressedBytes?: number;
  /** Full segments are not replaced, indexed or compressed. */
  readonly degraded?: boolean;
  readonly failedRotations?: number;
  /** How long the last sync took. */
  readonly syncMs?: number;
  /** Only of a log on an engine that several gateways share. */
  readonly engine?: LogEngineStatus;
}

export interface Metrics {
  observeExchange(facts: ExchangeFigures): void;
  /** A response could not be recorded. */
  responseNotStored(provider: { readonly name: string; readonly type: string } | undefined): void;
  /** Adds a counter whose value is read at each scrape. */
  count(name: string, help: string, value: () => number): void;
  /** A request was served without its semantic cache, or its answer not offered to similar requests. */
  semanticCacheFailed(operation: 'embedding' | 'search' | 'store'): void;
  /** Adds sources that are read at each scrape. */
  watch(sources: MetricSources): void;
  /** The text of a scrape. */
  text(): Promise<string>;
  /** What that text says, for a service of several processes. */
  figures(): Promise<MetricFigures>;
  readonly contentType: string;
}

export interface MetricsOptions {
  /** Models beyond this many are counted together, as `other`. Default 200. */
  readonly maxModels?: number;
  /** Metrics of the process itself: memory, garbage collection, event loop. Default true. */
  readonly processMetrics?: boolean;
}

const SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];
const FIRST_BYTE_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60];
const NONE = 'none';
const OTHER = 'other';

/** Metrics of one kind of exchange. Counts are plain numbers until a scrape reads them. */
interface Tally {
  readonly duration: Histogram.Internal<string>;
  readonly firstByte: Histogram.Internal<string>;
  readonly place: { readonly provider: string; readonly model: string };
  readonly labels: { readonly endpoint: string; readonly stream: string };
  readonly byStatus: Map<number, number>;
  inputTokens: number;
  outputTokens: number;
}

export function createMetrics(options: MetricsOptions = {}): Metrics {
  const { maxModels = 200, processMetrics = true } = options;
  const registry = processMetrics ? Registry.merge([metricsOfProcess()]) : new Registry();
  const registers = [registry];

  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers });
  /** Its values are read at each scrape. */
  type Add = (labels: Record<string, string>, count: number) => void;
  const readCounter = (name: string, help: string, labelNames: string[], read: (add: Add) => void) =>
    new Counter({
      ...{ name, help, labelNames, registers },
      collect() {
        this.reset();
        read((labels, count) => this.inc(labels, count));
      },
    });
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, labelNames: ['provider', 'model', 'endpoint', 'stream'], buckets, registers });

  const tallies = new Map<string, Tally>();
  readCounter(
    'gateway_requests_total',
    'Model requests by outcome',
    ['provider', 'model', 'endpoint', 'status_code', 'status_type', 'stream'],
    (add) => {
      for (const { place, labels, byStatus } of tallies.values()) {
        for (const [status, count] of byStatus) add({ ...place, ...labels, ...statusLabels(status) }, count);
      }
    },
  );
  const duration = histogram(
    'gateway_request_duration_seconds',
    'Time from the received request to the last byte of the answer',
    SECONDS,
  );
  const firstByte = histogram(
    'gateway_time_to_first_byte_seconds',
    "Time from the received request to the first byte of the provider's answer",
    FIRST_BYTE_SECONDS,
  );
  readCounter('gateway_tokens_total', 'Tokens reported by providers', ['provider', 'model', 'direction'], (add) => {
    for (const { place, inputTokens, outputTokens } of tallies.values()) {
      if (inputTokens > 0) add({ ...place, direction: 'input' }, inputTokens);
      if (outputTokens > 0) add({ ...place, direction: 'output' }, outputTokens);
    }
  });
  const cacheLookups = counter(
    'gateway_cache_requests_total',
    'Requests that the response cache answered, by kind of entry, or did not answer (miss)',
    ['cache', 'endpoint'],
  );
  const cacheStores = counter('gateway_cache_stored_total', 'Answers of providers that the response cache keeps', [
    'endpoint',
  ]);
  const semanticFailures = counter(
    'gateway_semantic_cache_failures_total',
    'Embeddings, searches and stored vectors of the semantic cache that failed',
    ['operation'],
  );
  const snapshotFailures = counter(
    'gateway_response_snapshot_store_failures_total',
    'Responses that could not be stored',
    ['provider', 'provider_name', 'operation'],
  );

  const models = new Set<string>();
  const sources: MetricSources = {};
  readCounter(
    'gateway_admission_refused_total',
    'Requests, and targets of requests, that budgets and rate limits refused',
    ['reason'],
    (add) => {
      for (const [reason, count] of sources.refused?.() ?? []) add({ reason }, count);
    },
  );
  readCounter(
    'gateway_route_strategy_fallbacks_total',
    'Selections of a target by weighted round robin, because a route strategy selected none',
    ['strategy', 'reason'],
    (add) => {
      for (const { strategy, reason, count } of sources.routeFallbacks?.() ?? []) add({ strategy, reason }, count);
    },
  );
  declareGauges(registry, sources);

  function modelLabel(model: string | undefined): string {
    if (model === undefined) return NONE;
    if (models.has(model)) return model;
    if (models.size >= maxModels) return OTHER;
    models.add(model);
    return model;
  }

  function tallyOf(facts: ExchangeFigures): Tally {
    const model = modelLabel(facts.model);
    const key = `${facts.endpoint}\n${facts.provider}\n${model}\n${facts.stream}`;
    let tally = tallies.get(key);
    if (tally === undefined) {
      const place = { provider: facts.provider ?? NONE, model };
      const labels = { endpoint: facts.endpoint, stream: String(facts.stream) };
      tally = {
        duration: duration.labels({ ...place, ...labels }),
        firstByte: firstByte.labels({ ...place, ...labels }),
        place,
        labels,
        byStatus: new Map(),
        inputTokens: 0,
        outputTokens: 0,
      };
      tallies.set(key, tally);
    }
    return tally;
  }

  return {
    observeExchange(facts) {
      const tally = tallyOf(facts);
      tally.byStatus.set(facts.status, (tally.byStatus.get(facts.status) ?? 0) + 1);
      tally.duration.observe(facts.durationMs / 1000);
      if (facts.firstByteMs !== undefined) tally.firstByte.observe(facts.firstByteMs / 1000);
      tally.inputTokens += facts.usage?.inputTokens ?? 0;
      tally.outputTokens += facts.usage?.outputTokens ?? 0;
      if (facts.cache === undefined) return;
      cacheLookups.inc({ cache: facts.cache, endpoint: facts.endpoint });
      if (facts.isStored === true) cacheStores.inc({ endpoint: facts.endpoint });
    },
    responseNotStored(provider) {
      snapshotFailures.inc({ provider: provider?.type ?? '', provider_name: provider?.name ?? '', operation: 'store' });
    },
    count(name, help, value) {
      readCounter(name, help, [], (add) => add({}, value()));
    },
    semanticCacheFailed(operation) {
      semanticFailures.inc({ operation });
    },
    watch(more) {
      Object.assign(sources, more);
    },
    text: () => registry.metrics(),
    figures: () => metricFiguresOf(registry),
    contentType: registry.contentType,
  };
}

let ofProcess: Registry | undefined;

/** Observed once, however many gateways the process has had: the observers have no end and would keep their gateway. */
function metricsOfProcess(): Registry {
  if (ofProcess === undefined) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}

function statusLabels(status: number): { status_code: string; status_type: string } {
  const known = Number.isInteger(status) && status >= 100 && status <= 599;
  return {
    status_code: status === 0 ? 'network_error' : known ? String(status) : OTHER,
    status_type: status >= 200 && status < 400 ? 'success' : 'error',
  };
}

const CIRCUIT: Record<CircuitState, number> = { closed: 0, half_open: 1, open: 2 };

/** Gauges keep no values: at each scrape they are emptied and filled from their source. */
function declareGauges(registry: Registry, sources: MetricSources): void {
  type Set = (value: number, labels?: Record<string, string>) => void;
  const gauge = (name: string, help: string, labelNames: string[], fill: (set: Set) => void | Promise<void>) => {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        // Without labels, `reset` means zero; `remove` means unknown.
        if (labelNames.length > 0) this.reset();
        else this.remove();
        try {
          await fill((value, labels = {}) => this.set(labels, value));
        } catch {
          // A source that throws must not hide the other metrics.
        }
      },
    });
  };
  const single = (name: string, help: string, value: () => number | undefined | Promise<number | undefined>) =>
    gauge(name, help, [], async (set) => {
      const now = await value();
      if (now !== undefined) set(now);
    });

  single('gateway_requests_in_flight', 'Model requests in progress', () => sources.inFlight?.());
  single('gateway_live_log_clients', 'Listeners of the live tail', () => sources.liveClients?.());
  const ofLog = (name: string, help: string, value: (figures: LogFigures) => number | undefined) =>
    single(name, help, async () => {
      const figures = await sources.log?.();
      return figures && value(figures);
    });
  ofLog('gateway_log_available', 'Whether the event log can be written', ({ available }) => Number(available));
  ofLog('gateway_log_head_position', 'Position of the newest event', ({ head }) =>
    head !== undefined && /^\d+$/.test(head) ? Number(head) : undefined,
  );
  ofLog('gateway_log_unsynced_bytes', 'Bytes appended and not yet on disk', ({ unsyncedBytes }) => unsyncedBytes);
  ofLog(
    'gateway_log_uncompressed_bytes',
    'About how many bytes of full segments of the event log wait to be compressed',
    ({ uncompressedBytes }) => uncompressedBytes,
  );
  ofLog(
    'gateway_log_degraded',
    'Whether full segments of the event log cannot be replaced or compressed',
    ({ degraded }) => (degraded === undefined ? undefined : Number(degraded)),
  );
  ofLog(
    'gateway_log_rotation_failures',
    'Failed attempts to replace or compress a full segment',
    ({ failedRotations }) => failedRotations,
  );
  ofLog('gateway_log_sync_duration_seconds', 'Duration of the last sync to disk', ({ syncMs }) =>
    syncMs === undefined ? undefined : syncMs / 1000,
  );
  const engineGauge = (name: string, help: string, value: (engine: LogEngineStatus) => number | undefined) =>
    gauge(name, help, ['engine'], async (set) => {
      const engine = (await sources.log?.())?.engine;
      const now = engine && value(engine);
      if (engine !== undefined && now !== undefined) set(now, { engine: engine.name });
    });
  engineGauge(
    'gateway_log_engine_connected',
    'Whether appends reach the engine of the log and are read back',
    ({ connected }) => Number(connected),
  );
  engineGauge(
    'gateway_log_engine_unread_appends',
    'Appends that the engine of the log has acknowledged and that were not read back yet',
    ({ unreadAppends }) => unreadAppends,
  );
  engineGauge(
    'gateway_log_engine_last_read_timestamp_seconds',
    'When something was last read from the engine of the log',
    ({ lastReadAt }) => (lastReadAt === undefined ? undefined : lastReadAt / 1000),
  );
  gauge('gateway_provider_up', 'Whether the model list of the provider can be read', ['provider'], (set) => {
    for (const { name, up } of sources.providers?.() ?? []) if (up !== undefined) set(Number(up), { provider: name });
  });
  const circuitHelp = 'Circuit breaker: 0 closed, 1 half open, 2 open';
  gauge('gateway_circuit_breaker_state', circuitHelp, ['provider'], (set) => {
    for (const { name, circuit } of sources.providers?.() ?? []) {
      if (circuit !== undefined) set(CIRCUIT[circuit], { provider: name });
    }
  });
  gauge('gateway_projection_lag_seconds', 'Time since the projection was last up to date', ['projection'], (set) => {
    for (const { name, lagMs } of sources.projections?.() ?? []) set(lagMs / 1000, { projection: name });
  });
  gauge('gateway_projection_lag_events', 'Events that the projection has not processed', ['projection'], (set) => {
    const lagEvents = sources.analytics?.()?.lagEvents;
    if (lagEvents !== undefined) set(lagEvents, { projection: 'analytics' });
  });
  gauge('gateway_projection_running', 'Whether the projection follows the log', ['projection'], (set) => {
    for (const { name, phase } of sources.projections?.() ?? []) {
      set(Number(phase !== 'stopped'), { projection: name });
    }
  });
}

/** Path of the metrics: the configured one, unless it would hide an API path. */
export function metricsPath(configured = '/metrics'): string {
  const path = `/${configured
    .split('/')
    .filter((segment) => segment !== '' && segment !== '.')
    .join('/')}`;
  return path === '/' || /^\/(v1|p|admin)(\/|$)/.test(path) || /[?#*:]|\/\.\.(\/|$)/.test(path) ? '/metrics' : path;
}

export interface MetricsRoute {
  readonly path?: string | undefined;
  /** Served without a key. */
  readonly isPublic: boolean;
}

const getMetrics = {
  operationId: 'metrics',
  summary: "Metrics in Prometheus' text format",
  description:
    'For METRICS_KEY, the master key and keys of global administrators; for every caller with METRICS_PUBLIC. The path is ' +
    'configurable, and the route can be off.',
  tag: 'operations',
  response: { 200: mediaAnswer('The metrics', 'text/plain', { type: 'string' }) },
} as const;

export function registerMetrics(
  app: Routes,
  metrics: Pick<Metrics, 'text' | 'contentType'>,
  { path, isPublic }: MetricsRoute,
): void {
  const access = isPublic ? 'public' : 'metrics';
  app.get(metricsPath(path), { config: { access }, schema: getMetrics }, async (_request, reply) => {
    return reply.type(metrics.contentType).send(await metrics.text());
  });
}
