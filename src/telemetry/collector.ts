/**
 * The way to a collector, by OpenTelemetry's packages: OTLP over HTTP or gRPC, which repeat what may be repeated. Loaded only
 * where something is exported, so it imports little else of the gateway.
 */
import type { Attributes, HrTime, ValueType } from '@opentelemetry/api';
import { type ExportResult, ExportResultCode, parseKeyPairsIntoRecord } from '@opentelemetry/core';
import { OTLPExporterBase } from '@opentelemetry/otlp-exporter-base';
import { convertLegacyHttpOptions, createOtlpHttpExportDelegate } from '@opentelemetry/otlp-exporter-base/node-http';
import { type ISerializer, ProtobufMetricsSerializer } from '@opentelemetry/otlp-transformer';
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  DataPointType,
  type Histogram,
  type MetricData,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics';
import { readBoundedFile } from '../config/bounded-file.ts';
import type { CollectorConfig, OtelConfig } from '../config/otel-schema.ts';
import type { MetricFigure, MetricFigures } from '../http/metric-figures.ts';

/** Sends something. Resolves with why it was not accepted; undefined when it was. Never rejects. */
type Export<Items> = (items: Items) => Promise<string | undefined>;

export interface Collector {
  /** Spans in the wire format. */
  readonly traces: Export<Buffer> | undefined;
  readonly metrics: Export<MetricFigures> | undefined;
}

/** Longer texts of a collector are cut. */
const MAX_REASON = 300;

/** @param requestOf makes a request of the attributes of the service and spans */
export async function openCollector(
  { serviceName, resourceAttributes, traces, metrics }: OtelConfig,
  service: Readonly<Record<string, string | number>>,
  proxyOf: (origin: string) => string | undefined,
  requestOf: (resource: Readonly<Record<string, string | number>>, spans: Buffer) => Buffer,
): Promise<Collector> {
  const given = { ...service, ...parseKeyPairsIntoRecord(resourceAttributes) };
  if (serviceName !== undefined) given['service.name'] = serviceName;
  const resource = defaultResource().merge(resourceFromAttributes(given));
  const ofTraces = { ...given, ...sdkOf(resource.attributes) };
  const startTime = hrTimeOf(Date.now());
  const scope = { name: 'chancery', version: String(service['service.version']) };
  const toMetrics =
    metrics && (await exporterOf<ResourceMetrics>('metrics', metrics.collector, proxyOf, ProtobufMetricsSerializer));
  return {
    traces:
      traces &&
      (await exporterOf<Buffer>('traces', traces.collector, proxyOf, {
        serializeRequest: (spans) => requestOf(ofTraces, spans),
      })),
    metrics:
      toMetrics &&
      ((figures) => {
        const data = metricData(figures, { startTime, endTime: hrTimeOf(Date.now()) });
        return toMetrics({ resource, scopeMetrics: [{ scope, metrics: data }] });
      }),
  };
}

function sdkOf(attributes: Attributes): Record<string, string> {
  const own = Object.entries(attributes).filter(([name]) => name.startsWith('telemetry.sdk.'));
  return Object.fromEntries(own.map(([name, value]) => [name, String(value)]));
}

async function exporterOf<Items>(
  signal: 'traces' | 'metrics',
  config: CollectorConfig,
  proxyOf: (origin: string) => string | undefined,
  { serializeRequest }: Pick<ISerializer<Items, unknown>, 'serializeRequest'>,
): Promise<Export<Items>> {
  // The answer has nothing that is used.
  const serializer = { serializeRequest, deserializeResponse: () => ({}) };
  const counted = {
    name: signal === 'traces' ? ('span' as const) : ('metric_data_point' as const),
    countItems: () => 1,
  };
  const { endpoint: url, timeoutMs: timeoutMillis, compression } = config;
  const given = { url, timeoutMillis, compression: compression as never };
  const headers = parseKeyPairsIntoRecord(config.headers);
  const [ca, cert, key] = [config.certificate, config.clientCertificate, config.clientKey].map((file) =>
    file === undefined ? undefined : readBoundedFile(file),
  );
  const upper = signal === 'traces' ? 'TRACES' : 'METRICS';
  let exporter: OTLPExporterBase<Items>;
  if (config.protocol === 'grpc') {
    const grpc = await import('@opentelemetry/otlp-grpc-exporter-base');
    const metadata = grpc.createEmptyMetadata();
    for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
    const isPlain = url.startsWith('http://');
    const credentials = isPlain ? grpc.createInsecureCredentials() : grpc.createSslCredentials(ca, key, cert);
    const options = grpc.convertLegacyOtlpGrpcOptions({ ...given, metadata, credentials }, upper);
    const service = signal === 'traces' ? 'trace.v1.TraceService' : 'metrics.v1.MetricsService';
    const path = `/opentelemetry.proto.collector.${service}/Export`;
    exporter = new OTLPExporterBase(
      grpc.createOtlpGrpcExportDelegate(options, serializer, '', counted, undefined, service, path),
    );
  } else {
    const proxy = proxyOf(new URL(url).origin);
    if (proxy?.startsWith('socks')) {
      throw new Error(`${signal} cannot be exported through a SOCKS proxy: name the host of ${url} in NO_PROXY`);
    }
    const proxyEnv = proxy === undefined ? {} : { http_proxy: proxy, https_proxy: proxy };
    const httpAgentOptions = { keepAlive: true, proxyEnv, ca, cert, key };
    const type = { 'Content-Type': 'application/x-protobuf' };
    const options = convertLegacyHttpOptions({ ...given, headers, httpAgentOptions }, upper, `v1/${signal}`, type);
    exporter = new OTLPExporterBase(createOtlpHttpExportDelegate(options, serializer, '', counted, undefined));
  }
  return async (items) => {
    const { promise, resolve } = Promise.withResolvers<ExportResult>();
    exporter.export(items, resolve);
    const { code, error } = await promise;
    if (code === ExportResultCode.SUCCESS) return undefined;
    return error?.message.slice(0, MAX_REASON) || 'the collector gives no reason';
  };
}

function hrTimeOf(ms: number): HrTime {
  return [Math.floor(ms / 1000), (ms % 1000) * 1e6];
}

/** `ValueType.DOUBLE`, without the package at run time: the bundle has one for Prometheus' client. */
const DOUBLE: ValueType = 1;

interface Times {
  /** Since which sums are counted. */
  readonly startTime: HrTime;
  readonly endTime: HrTime;
}

/** The gateway's metrics, as a scrape shows them, in OpenTelemetry's form. */
function metricData(figures: MetricFigures, times: Times): MetricData[] {
  return figures.flatMap(({ name, help, type, values }): MetricData[] => {
    const unit = /_seconds(_total)?$/.test(name) ? 's' : /_bytes(_total)?$/.test(name) ? 'By' : '';
    const genAi = genAiNames.get(name);
    const base = {
      descriptor: { name, description: help, unit, ...genAi, valueType: DOUBLE },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
    };
    if (type === 'histogram') {
      const dataPoints = histograms(name, values).map((point) => ({ ...times, ...point }));
      return [{ ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints }];
    }
    const dataPoints = values.map(({ value, labels }) => ({ ...times, attributes: attributesOf(labels), value }));
    if (type === 'counter') return [{ ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }];
    return type === 'gauge' ? [{ ...base, dataPointType: DataPointType.GAUGE, dataPoints }] : [];
  });
}

/** One for each set of labels, with counts of each bucket alone: those of Prometheus include the lower ones. */
function histograms(name: string, values: readonly MetricFigure[]) {
  const found = new Map<string, { readonly attributes: Attributes; readonly value: Histogram }>();
  for (const { value, labels, metricName } of values) {
    const { le, ...others } = labels;
    const key = JSON.stringify(others);
    const empty = (): Histogram => ({ buckets: { boundaries: [], counts: [] }, sum: 0, count: 0 });
    const series = found.get(key) ?? { attributes: attributesOf(others), value: empty() };
    found.set(key, series);
    const { buckets } = series.value;
    if (metricName === `${name}_sum`) series.value.sum = value;
    else if (metricName === `${name}_count`) series.value.count = value;
    else {
      buckets.counts.push(value - buckets.counts.reduce((sum, each) => sum + each, 0));
      if (le !== '+Inf') buckets.boundaries.push(Number(le));
    }
  }
  return [...found.values()];
}

/** Prometheus' names have no dots. */
const genAiNames: ReadonlyMap<string, { readonly name: string; readonly unit: string }> = new Map([
  ['gen_ai_client_operation_duration', { name: 'gen_ai.client.operation.duration', unit: 's' }],
  ['gen_ai_client_token_usage', { name: 'gen_ai.client.token.usage', unit: '{token}' }],
  ['gen_ai_server_time_to_first_token', { name: 'gen_ai.server.time_to_first_token', unit: 's' }],
]);
const genAiLabels: ReadonlyMap<string, string> = new Map([
  ...['operation_name', 'provider_name', 'request_model', 'response_model', 'token_type'].map(
    (name) => [`gen_ai_${name}`, `gen_ai.${name.replace('_', '.')}`] as const,
  ),
  ['error_type', 'error.type'],
]);

function attributesOf(labels: MetricFigure['labels']): Attributes {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [genAiLabels.get(name) ?? name, value]));
}
