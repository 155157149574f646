/**
 * Exports traces and metrics with OpenTelemetry (OTLP). A collector that fails or is slow costs no request: spans wait in a
 * bounded queue, what exceeds it is dropped and counted, and one export of a signal is under way at a time.
 */
import type { Logger } from 'pino';
import type { ExchangeTrace } from '../commands/exchange/exchange-record.ts';
import type { ExchangeSummary } from '../commands/exchange/pipeline/dependencies.ts';
import type { ModelRequest } from '../commands/model-request/model-request.ts';
import { gatewayVersion } from '../config/gateway-version.ts';
import type { OtelConfig } from '../config/otel-schema.ts';
import type { MetricFigures } from '../http/metric-figures.ts';
import { type TracedExchange, TraceOfExchange } from './exchange-trace.ts';
import { genAiMetrics } from './gen-ai-metrics.ts';
import { SpanWriter, spanRequest } from './span-writer.ts';
import { providerCalls, spansOf } from './spans.ts';

/** Collectors accept at most 4 MiB by gRPC. */
const BATCH_BYTES = 1024 * 1024;
/** Of full batches: spans with messages are large. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
/** How long a stop waits for the last exports. */
const STOP_MS = 3_000;

interface TelemetryOptions {
  readonly config: OtelConfig;
  /** Of this gateway. */
  readonly instance: string;
  readonly logger: Logger;
  /** For exports by HTTP; gRPC follows the environment itself. */
  readonly proxyOf: (origin: string) => string | undefined;
  /** Those that are exported, and that get its own counters. */
  readonly metrics: {
    figures(): Promise<MetricFigures>;
    count(name: string, help: string, value: () => number): void;
  };
}

export type Telemetry = Awaited<ReturnType<typeof startTelemetry>>;

export async function startTelemetry({ config, instance, logger, proxyOf, metrics }: TelemetryOptions) {
  const { traces, metrics: ofMetrics, capturesContent } = config;
  const service = {
    'service.name': 'chancery',
    'service.version': gatewayVersion,
    'service.instance.id': instance,
    'process.pid': process.pid,
  };
  // OpenTelemetry's packages are loaded only here.
  const { openCollector } = await import('./collector.ts');
  const collector = await openCollector(config, service, proxyOf, (resource, spans) =>
    spanRequest(resource, gatewayVersion, spans),
  );

  const counts = { exportedSpans: 0, failedSpans: 0, droppedSpans: 0, failedMetrics: 0 };
  const count = (name: string, help: string, member: keyof typeof counts) =>
    metrics.count(`gateway_otlp_${name}_total`, help, () => counts[member]);
  count('exported_spans', 'Spans that the collector has accepted', 'exportedSpans');
  count('failed_spans', 'Spans that the collector has not accepted', 'failedSpans');
  count('dropped_spans', 'Spans that were not sent because too many waited', 'droppedSpans');
  count('failed_metric_exports', 'Exports of metrics that the collector has not accepted', 'failedMetrics');

  /** The signals whose last export failed. */
  const failing = new Set<string>();
  /** Reports the first failure of a signal, and the first success after it. @returns whether there is no problem */
  function isAccepted(signal: 'traces' | 'metrics', problem: string | undefined): boolean {
    if (problem === undefined) {
      if (failing.delete(signal)) logger.info(`OpenTelemetry: ${signal} are exported again`);
    } else if (!failing.has(signal)) {
      failing.add(signal);
      logger.warn(`OpenTelemetry: ${signal} cannot be exported: ${problem}`);
    }
    return problem === undefined;
  }

  // Spans: the batch that is filled, and the full ones in their order.
  let filling = new SpanWriter();
  const full: SpanWriter[] = [];
  let waiting = 0;
  let waitingBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  function closeBatch(): void {
    clearTimeout(timer);
    timer = undefined;
    if (filling.count > 0) full.push(filling);
    waitingBytes += filling.bytes.length;
    filling = new SpanWriter();
    sending ??= sendFull().finally(() => {
      sending = undefined;
    });
  }
  async function sendFull(): Promise<void> {
    for (let batch = full.shift(); batch !== undefined; batch = full.shift()) {
      const wasAccepted = isAccepted('traces', await collector.traces?.(batch.bytes));
      counts[wasAccepted ? 'exportedSpans' : 'failedSpans'] += batch.count;
      waiting -= batch.count;
      waitingBytes -= batch.bytes.length;
    }
  }

  const genAi = ofMetrics && genAiMetrics();
  let collecting: Promise<void> | undefined;
  async function exportMetrics(): Promise<void> {
    const figures = [...(await metrics.figures()), ...(genAi?.figures() ?? [])];
    if (!isAccepted('metrics', await collector.metrics?.(figures))) counts.failedMetrics++;
  }
  function collectMetrics(): void {
    collecting ??= exportMetrics()
      .catch((error: unknown) => logger.error(error))
      .finally(() => {
        collecting = undefined;
      });
  }
  const interval = ofMetrics && setInterval(collectMetrics, ofMetrics.intervalMs).unref();

  function add(traced: TracedExchange): void {
    const calls = providerCalls(traced);
    genAi?.observe(traced, calls);
    if (traces === undefined || !traced.isSampled) return;
    const spans = spansOf(traced, calls);
    if (waiting + spans.length > traces.maxQueueSize || waitingBytes > MAX_WAITING_BYTES) {
      counts.droppedSpans += spans.length;
      return;
    }
    for (const span of spans) filling.add(span);
    waiting += spans.length;
    if (filling.count >= traces.maxBatchSize || filling.bytes.length >= BATCH_BYTES) closeBatch();
    else timer ??= setTimeout(closeBatch, traces.delayMs).unref();
  }

  const settings = { sampler: traces?.sampler, hasMetrics: ofMetrics !== undefined, capturesContent };
  /** By the id of the exchange, whose guardrails and plugins may cause others. */
  const open = new Map<string, TraceOfExchange>();
  return {
    get health(): 'ok' | 'failing' {
      return failing.size === 0 ? 'ok' : 'failing';
    },

    begin(request: ModelRequest, exchangeId: string): ExchangeTrace {
      const cause = request.causationId === undefined ? undefined : open.get(request.causationId)?.context;
      const trace = new TraceOfExchange(request, cause, settings);
      open.set(exchangeId, trace);
      return trace;
    },

    ended(summary: ExchangeSummary): void {
      const trace = open.get(summary.exchangeId);
      open.delete(summary.exchangeId);
      try {
        const traced = trace?.ended(summary);
        if (traced !== undefined) add(traced);
      } catch (error) {
        // For example content that is nested too deeply.
        counts.droppedSpans++;
        logger.debug(error);
      }
    },

    /** Exports what has ended. Resolves when that is done, or has taken too long. */
    async stop(): Promise<void> {
      clearInterval(interval);
      closeBatch();
      if (ofMetrics !== undefined) collectMetrics();
      const { promise: late, resolve } = Promise.withResolvers<void>();
      const limit = setTimeout(resolve, STOP_MS);
      await Promise.race([Promise.all([sending, collecting]), late]);
      clearTimeout(limit);
    },
  };
}
