/** The settings of OpenTelemetry, by its standard variables, and their values in the program. */
import { resolve } from 'node:path';
import type { z } from 'zod';
import { readBoundedFile } from './bounded-file.ts';
import type { Problem, RawSettings } from './problem.ts';
import { choice, decimal, httpUrl, noted, optionalSetting, section, setting, text, toggle, whole } from './setting.ts';

const isDecoded = (value: string) => {
  try {
    return !/[^\t\x20-\x7e]/.test(decodeURIComponent(value.trim()));
  } catch {
    return false;
  }
};
/** As in W3C Baggage: `key=value,key2=value2`, with values in percent encoding. */
const pairs = (what: string, name: RegExp) =>
  text().refine(
    (given) =>
      given.split(',').every((pair) => {
        const at = pair.indexOf('=');
        return at > 0 && name.test(pair.slice(0, at).trim()) && isDecoded(pair.slice(at + 1));
      }),
    { error: () => `expected ${what} such as name=value,name2=value2, with other characters in percent encoding` },
  );

/** Of the collector; those of one signal precede those of both. */
const collector = (prefix: '' | 'TRACES_' | 'METRICS_', of: string) => {
  const one = <Kind extends z.ZodType>(name: string, kind: Kind, about: string, secret = false) =>
    optionalSetting(kind, { env: `OTEL_EXPORTER_OTLP_${prefix}${name}`, secret, describe: `${of}: ${about}` });
  const isWhole = prefix === '' ? 'with HTTP, /v1/traces and /v1/metrics are added' : 'the whole address';
  return {
    endpoint: one(
      'ENDPOINT',
      httpUrl(),
      `address of the collector, ${isWhole}; else http://localhost:4318, or 4317 for gRPC`,
    ),
    protocol: one(
      'PROTOCOL',
      noted('http/json is not supported', 'http/protobuf', 'grpc'),
      'http/protobuf when not set',
    ),
    headers: one('HEADERS', pairs('headers', /^[\w!#$%&'*+.^`|~-]+$/), 'headers such as api-key=…', true),
    timeout: one('TIMEOUT', whole(1, 600_000), 'milliseconds for an export with its repetitions; 10000 when not set'),
    compression: one('COMPRESSION', choice('none', 'gzip'), 'none when not set'),
    certificate: one('CERTIFICATE', text('a file'), "PEM file of the authority of the collector's certificate"),
    client_certificate: one('CLIENT_CERTIFICATE', text('a file'), 'PEM file of the certificate for the collector'),
    client_key: one('CLIENT_KEY', text('a file'), 'PEM file of its private key'),
  };
};

const exporter = (signal: 'TRACES' | 'METRICS') =>
  optionalSetting(noted('others are not supported', 'otlp', 'none'), {
    env: `OTEL_${signal}_EXPORTER`,
    describe: `whether ${signal.toLowerCase()} are exported; otlp when an address is set, else none`,
  });

export const otelSection = section({
  disabled: setting(toggle(), false, { env: 'OTEL_SDK_DISABLED', describe: 'true: nothing is exported' }),
  service_name: optionalSetting(text(), {
    env: 'OTEL_SERVICE_NAME',
    describe: 'service.name of what is exported; that of resource_attributes or chancery when not set',
  }),
  resource_attributes: optionalSetting(pairs('attributes', /^[^\s,;=]+$/), {
    env: 'OTEL_RESOURCE_ATTRIBUTES',
    describe: 'further attributes of the service, such as deployment.environment.name=production',
  }),
  capture_message_content: setting(toggle(), false, {
    env: 'OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT',
    describe: 'export the messages of requests and answers, where their bodies are recorded',
  }),
  collector: section(collector('', 'both signals')),
  traces: section({
    exporter: exporter('TRACES'),
    sampler: setting(
      choice(
        ...(['always_on', 'always_off', 'traceidratio'] as const),
        ...(['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const),
      ),
      'parentbased_always_on',
      {
        env: 'OTEL_TRACES_SAMPLER',
        describe: "which traces are exported; parentbased: as the client's traceparent says",
      },
    ),
    sampler_arg: setting(decimal(0, 1), 1, {
      env: 'OTEL_TRACES_SAMPLER_ARG',
      describe: 'share of the traces, for traceidratio',
    }),
    schedule_delay: setting(whole(1, 600_000), 5000, {
      env: 'OTEL_BSP_SCHEDULE_DELAY',
      describe: 'milliseconds until spans are exported that are no full batch',
    }),
    max_queue_size: setting(whole(1, 1_000_000), 8192, {
      env: 'OTEL_BSP_MAX_QUEUE_SIZE',
      describe: 'spans that wait for their export; further ones are dropped and counted',
    }),
    max_export_batch_size: setting(whole(1, 1_000_000), 512, {
      env: 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE',
      describe: 'spans in one export, at most max_queue_size',
    }),
    ...collector('TRACES_', 'traces'),
  }),
  metrics: section({
    exporter: exporter('METRICS'),
    interval: setting(whole(100, 86_400_000), 60_000, {
      env: 'OTEL_METRIC_EXPORT_INTERVAL',
      describe: 'milliseconds between exports of metrics',
    }),
    ...collector('METRICS_', 'metrics'),
  }),
});

type OtelSettings = z.output<typeof otelSection>;

type Collector = OtelSettings['collector'];
const files = ['certificate', 'client_certificate', 'client_key'] as const;

/** Undefined: nothing is exported. */
export type OtelConfig = NonNullable<ReturnType<typeof otelConfig>>;
export type CollectorConfig = ReturnType<typeof collectorOf>;

export function otelConfig({ disabled, collector: both, traces, metrics, ...settings }: OtelSettings, cwd: string) {
  const isOn = ({ exporter, endpoint }: OtelSettings['traces'] | OtelSettings['metrics']) =>
    !disabled && (exporter ?? ((endpoint ?? both.endpoint) ? 'otlp' : 'none')) === 'otlp';
  if (!isOn(traces) && !isOn(metrics)) return undefined;
  return {
    serviceName: settings.service_name,
    /** As text, with values in percent encoding; so are headers. */
    resourceAttributes: settings.resource_attributes,
    capturesContent: settings.capture_message_content,
    traces: isOn(traces)
      ? {
          collector: collectorOf('traces', traces, both, cwd),
          sampler: { isParentBased: traces.sampler.startsWith('parentbased_'), ratio: ratioOf(traces) },
          delayMs: traces.schedule_delay,
          /** Spans. */
          maxQueueSize: traces.max_queue_size,
          maxBatchSize: traces.max_export_batch_size,
        }
      : undefined,
    metrics: isOn(metrics)
      ? { collector: collectorOf('metrics', metrics, both, cwd), intervalMs: metrics.interval }
      : undefined,
  };
}

function collectorOf(signal: 'traces' | 'metrics', own: Collector, both: Collector, cwd: string) {
  const protocol = own.protocol ?? both.protocol ?? 'http/protobuf';
  const isGrpc = protocol === 'grpc';
  const base = both.endpoint ?? (isGrpc ? 'http://localhost:4317' : 'http://localhost:4318');
  const [certificate, clientCertificate, clientKey] = files.map((name) => {
    const file = own[name] ?? both[name];
    return file && resolve(cwd, file);
  });
  return {
    protocol,
    endpoint: own.endpoint ?? (isGrpc ? base : `${base}/v1/${signal}`),
    headers: [both.headers, own.headers].filter((given) => given !== undefined).join(','),
    timeoutMs: own.timeout ?? both.timeout ?? 10_000,
    compression: own.compression ?? both.compression ?? 'none',
    certificate,
    clientCertificate,
    clientKey,
  };
}

function ratioOf({ sampler, sampler_arg }: OtelSettings['traces']): number {
  if (sampler.endsWith('traceidratio')) return sampler_arg;
  return sampler.endsWith('always_on') ? 1 : 0;
}

/** The rules between settings, and files that cannot be read. */
export function otelProblems(settings: OtelSettings, cwd: string, raw: RawSettings): Problem[] {
  const { traces, metrics, disabled } = settings;
  if (disabled) return [];
  const problems: Problem[] = [];
  if (traces.max_export_batch_size > traces.max_queue_size) {
    const message = `expected at most max_queue_size (${traces.max_queue_size}), got ${traces.max_export_batch_size}`;
    problems.push(raw.problem('otel.traces.max_export_batch_size', 'OTEL_BSP_MAX_EXPORT_BATCH_SIZE', message));
  }
  for (const [place, prefix, given] of [
    ['collector', '', settings.collector],
    ['traces', 'TRACES_', traces],
    ['metrics', 'METRICS_', metrics],
  ] as const) {
    const { client_certificate: certificate, client_key: key } = given;
    for (const name of files) {
      const isMissing =
        (name === 'client_key' && certificate !== undefined) || (name === 'client_certificate' && key !== undefined);
      const file = given[name];
      const missing = isMissing ? 'a client certificate and its private key are needed together' : undefined;
      const fault = file === undefined ? missing : whyUnreadable(resolve(cwd, file));
      const variable = `OTEL_EXPORTER_OTLP_${prefix}${name.toUpperCase()}`;
      if (fault !== undefined) problems.push(raw.problem(`otel.${place}.${name}`, variable, fault));
    }
  }
  return problems;
}

function whyUnreadable(path: string): string | undefined {
  try {
    readBoundedFile(path);
    return undefined;
  } catch (error) {
    return `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}
