import { describe, expect, test } from 'vitest';
import { printConfig } from '../../src/config/print.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { configFrom, load, problemsFrom, types } from './load.ts';

const on = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
const otel = (env: Record<string, string>) => configFrom({ env }).otel;

describe('OpenTelemetry', () => {
  test('is off without an address or an exporter', () => {
    expect(otel({})).toBeUndefined();
    expect(otel({ OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_HEADERS: 'a=b' })).toBeUndefined();
    expect(otel({ ...on, OTEL_SDK_DISABLED: 'true' })).toBeUndefined();
    expect(otel({ ...on, OTEL_TRACES_EXPORTER: 'none', OTEL_METRICS_EXPORTER: 'none' })).toBeUndefined();
  });

  test('exports what an address or an exporter is set for', () => {
    expect(otel(on)).toMatchObject({
      traces: { collector: { protocol: 'http/protobuf', endpoint: 'http://collector:4318/v1/traces' } },
      metrics: { intervalMs: 60_000 },
    });
    expect(otel({ OTEL_TRACES_EXPORTER: 'otlp' })).toMatchObject({ traces: {}, metrics: undefined });
    expect(otel({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://c/v1/metrics' })).toMatchObject({ traces: undefined });
    expect(otel({ ...on, OTEL_TRACES_EXPORTER: 'none' })).toMatchObject({ traces: undefined, metrics: {} });
  });

  test('has the settings of each signal before those of both', () => {
    const env = {
      ...on,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: 'http/protobuf',
      OTEL_EXPORTER_OTLP_HEADERS: 'x=y',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=b,c=d%20e',
      OTEL_EXPORTER_OTLP_TIMEOUT: '2500',
      OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: '10',
      OTEL_SERVICE_NAME: 'ai',
    };
    expect(otel(env)).toMatchObject({
      serviceName: 'ai',
      traces: {
        collector: { protocol: 'grpc', endpoint: 'http://collector:4318', headers: 'x=y,a=b,c=d%20e', timeoutMs: 2500 },
      },
      metrics: {
        collector: {
          protocol: 'http/protobuf',
          endpoint: 'http://collector:4318/v1/metrics',
          headers: 'x=y',
          timeoutMs: 10,
        },
      },
    });
  });

  test.each([
    ['parentbased_always_on', undefined, { isParentBased: true, ratio: 1 }],
    ['always_off', undefined, { isParentBased: false, ratio: 0 }],
    ['traceidratio', '0.25', { isParentBased: false, ratio: 0.25 }],
    ['parentbased_traceidratio', '0.1', { isParentBased: true, ratio: 0.1 }],
  ])('has the sampler %s', (sampler, arg, expected) => {
    const env = { ...on, OTEL_TRACES_SAMPLER: sampler, ...(arg !== undefined && { OTEL_TRACES_SAMPLER_ARG: arg }) };
    expect(otel(env)?.traces?.sampler).toEqual(expected);
  });

  test('comes from the file', () => {
    const yaml = 'otel:\n  collector: { endpoint: "https://c:4318", headers: "k=v" }\n  metrics: { exporter: none }\n';
    expect(configFrom({ yaml }).otel).toMatchObject({ traces: {}, metrics: undefined });
  });

  test.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', 'expected an address starting with http:// or https://'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'ftp://x', 'expected an address starting with http:// or https://'],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'http/json', 'expected one of http/protobuf, grpc'],
    ['OTEL_EXPORTER_OTLP_TIMEOUT', '10s', 'expected a whole number'],
    ['OTEL_EXPORTER_OTLP_COMPRESSION', 'zstd', 'expected one of none, gzip'],
    ['OTEL_TRACES_EXPORTER', 'zipkin', 'expected one of otlp, none'],
    ['OTEL_METRICS_EXPORTER', 'prometheus', 'expected one of otlp, none'],
    ['OTEL_TRACES_SAMPLER', 'often', 'expected one of always_on'],
    ['OTEL_TRACES_SAMPLER_ARG', '2', 'expected a number from 0 to 1'],
    ['OTEL_BSP_MAX_QUEUE_SIZE', '0', 'expected a whole number'],
    ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE', '9000', 'expected at most max_queue_size (8192)'],
    ['OTEL_METRIC_EXPORT_INTERVAL', '1', 'expected a whole number'],
    ['OTEL_RESOURCE_ATTRIBUTES', 'team', 'expected attributes such as name=value'],
    ['OTEL_EXPORTER_OTLP_CERTIFICATE', 'no-such.pem', 'cannot be read'],
    ['OTEL_EXPORTER_OTLP_CLIENT_KEY', 'no-such.pem', 'cannot be read'],
    ['OTEL_SDK_DISABLED', 'maybe', 'expected true or false'],
    ['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', 'some', 'expected true or false'],
  ])('%s=%s is an error that names it', (variable, value, message) => {
    const problems = problemsFrom({ env: { ...on, [variable]: value } }).map(describeProblem);
    expect(problems.filter((one) => one.includes(variable) && one.includes(message))).not.toEqual([]);
  });

  test.each(['no-value', 'a=b,=c', 'a=%zz', 'a b=c', 'a=\u00e9'])(
    'headers such as %s are an error without them',
    (headers) => {
      const problems = problemsFrom({ env: { ...on, OTEL_EXPORTER_OTLP_HEADERS: `${headers},k=hidden-4711` } });
      expect(problems).toHaveLength(1);
      const [problem] = problems.map(describeProblem);
      expect(problem).toContain('OTEL_EXPORTER_OTLP_HEADERS');
      expect(problem).not.toContain('hidden');
    },
  );

  test('a client certificate and its key are needed together', () => {
    const problems = problemsFrom({ env: { ...on, OTEL_EXPORTER_OTLP_CLIENT_KEY: import.meta.filename } });
    expect(problems.map(describeProblem)).toEqual([
      expect.stringMatching(/OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE.*needed together/),
    ]);
  });

  test('headers are not printed', () => {
    const loaded = load({ env: { ...on, OTEL_EXPORTER_OTLP_HEADERS: 'api-key=hidden-4711' } });
    if (!loaded.ok) throw new Error('it is valid');
    expect(printConfig(loaded.config, loaded.rawSettings, { providers: types, guardrailSecrets: {} })).not.toContain(
      'hidden-4711',
    );
  });
});
