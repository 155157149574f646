import { afterEach, describe, expect, test } from 'vitest';
import type { ExchangeFigures } from '../../src/commands/exchange/pipeline/dependencies.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { createMetrics, type MetricSources, metricsPath, registerMetrics } from '../../src/http/metrics.ts';
import { bareServer } from '../support/bare-server.ts';

const facts: ExchangeFigures = {
  endpoint: '/v1/chat/completions',
  provider: 'local',
  model: 'tiny',
  status: 200,
  stream: true,
  durationMs: 300,
  firstByteMs: 20,
  usage: { ...unknownUsage, inputTokens: 10, outputTokens: 5 },
};

const lines = async (metrics: { text(): Promise<string> }, name: string) =>
  (await metrics.text()).split('\n').filter((line) => line.startsWith(name));

describe('an exchange', () => {
  test('is counted by its outcome and timed, and its tokens are summed', async () => {
    const metrics = createMetrics({ processMetrics: false });
    metrics.observeExchange(facts);
    metrics.observeExchange(facts);
    metrics.observeExchange({ ...facts, status: 502, usage: undefined, firstByteMs: undefined });
    const place = 'provider="local",model="tiny"';
    const where = `${place},endpoint="/v1/chat/completions"`;
    expect(await lines(metrics, 'gateway_requests_total')).toEqual([
      `gateway_requests_total{${where},stream="true",status_code="200",status_type="success"} 2`,
      `gateway_requests_total{${where},stream="true",status_code="502",status_type="error"} 1`,
    ]);
    expect(await metrics.text()).toBe(await metrics.text());
    const duration = await lines(metrics, 'gateway_request_duration_seconds');
    expect(duration).toContain(`gateway_request_duration_seconds_bucket{le="0.25",${where},stream="true"} 0`);
    expect(duration).toContain(`gateway_request_duration_seconds_bucket{le="0.5",${where},stream="true"} 3`);
    expect(await lines(metrics, 'gateway_time_to_first_byte_seconds_count')).toEqual([
      `gateway_time_to_first_byte_seconds_count{${where},stream="true"} 2`,
    ]);
    expect(await lines(metrics, 'gateway_tokens_total')).toEqual([
      `gateway_tokens_total{${place},direction="input"} 20`,
      `gateway_tokens_total{${place},direction="output"} 10`,
    ]);
  });

  test('that reached no provider, or whose client received nothing, is counted too', async () => {
    const metrics = createMetrics({ processMetrics: false });
    metrics.observeExchange({ ...facts, provider: undefined, model: undefined, status: 404 });
    metrics.observeExchange({ ...facts, status: 0 });
    metrics.observeExchange({ ...facts, status: 70_000 });
    const counted = await lines(metrics, 'gateway_requests_total');
    expect(counted[0]).toContain('provider="none",model="none"');
    expect(counted[1]).toContain('status_code="network_error",status_type="error"');
    expect(counted[2]).toContain('status_code="other",status_type="error"');
  });

  test('adds a time series per model only up to a limit', async () => {
    const metrics = createMetrics({ processMetrics: false, maxModels: 3 });
    for (let i = 0; i < 50; i++) metrics.observeExchange({ ...facts, model: `m${i}` });
    const counted = await lines(metrics, 'gateway_requests_total');
    expect(counted).toHaveLength(4);
    expect(counted.at(-1)).toMatch(/model="other".* 47$/);
  });
});

describe('a scrape', () => {
  test('returns current values', async () => {
    const metrics = createMetrics({ processMetrics: false });
    let providers = [
      { name: 'a', up: true, circuit: 'closed' as const },
      { name: 'b', up: false, circuit: 'open' as const },
    ];
    metrics.watch({ inFlight: () => 3, liveClients: () => 2, providers: () => providers });
    metrics.watch({
      log: () => ({
        available: true,
        head: '0000000000000042',
        unsyncedBytes: 7,
        uncompressedBytes: 8,
        degraded: true,
        failedRotations: 2,
        syncMs: 3,
      }),
      projections: () => [{ name: 'in-flight', phase: 'live', lagMs: 1500 }],
    });
    const text = await metrics.text();
    for (const line of [
      'gateway_requests_in_flight 3',
      'gateway_live_log_clients 2',
      'gateway_log_available 1',
      'gateway_log_head_position 42',
      'gateway_log_unsynced_bytes 7',
      'gateway_log_uncompressed_bytes 8',
      'gateway_log_degraded 1',
      'gateway_log_rotation_failures 2',
      'gateway_log_sync_duration_seconds 0.003',
      'gateway_provider_up{provider="b"} 0',
      'gateway_circuit_breaker_state{provider="b"} 2',
      'gateway_projection_lag_seconds{projection="in-flight"} 1.5',
      'gateway_projection_running{projection="in-flight"} 1',
    ]) {
      expect(text.split('\n')).toContain(line);
    }
    providers = [];
    expect(await lines(metrics, 'gateway_provider_up')).toEqual([]);
  });

  test('is not affected by a component whose state cannot be read', async () => {
    const metrics = createMetrics({ processMetrics: false });
    const broken = { log: () => Promise.reject(new Error('disk on fire')) } satisfies MetricSources;
    metrics.watch({ ...broken, inFlight: () => 1 });
    const text = await metrics.text();
    expect(text).toContain('gateway_requests_in_flight 1\n');
    expect(text).not.toMatch(/^gateway_log_available/m);
  });

  test('has the metrics of the process too', async () => {
    expect(await createMetrics().text()).toContain('process_cpu_seconds_total');
  });

  test('counts responses that could not be stored', async () => {
    const metrics = createMetrics({ processMetrics: false });
    metrics.responseNotStored({ type: 'llamacpp', name: 'local' });
    expect(await lines(metrics, 'gateway_response_snapshot_store_failures_total')).toEqual([
      'gateway_response_snapshot_store_failures_total{provider="llamacpp",provider_name="local",operation="store"} 1',
    ]);
  });
});

describe('the endpoint', () => {
  const app = bareServer();
  afterEach(() => app.close());

  test('serves them in the format of Prometheus', async () => {
    const metrics = createMetrics({ processMetrics: false });
    metrics.observeExchange(facts);
    registerMetrics(app, metrics, { isPublic: true });
    const answer = await app.inject('/metrics');
    expect(answer.statusCode).toBe(200);
    expect(answer.headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/);
    expect(answer.body).toContain('# TYPE gateway_requests_total counter');
  });

  test.each([
    [undefined, '/metrics'],
    ['/internal/metrics/', '/internal/metrics'],
    ['internal//prom', '/internal/prom'],
    ['/', '/metrics'],
    ['/v1/metrics', '/metrics'],
    ['/p', '/metrics'],
    ['/p/../x', '/metrics'],
    ['/admin/metrics', '/metrics'],
    ['/a/:b', '/metrics'],
    ['/v1metrics', '/v1metrics'],
  ])('requested at %s is at %s', (configured, path) => {
    expect(metricsPath(configured)).toBe(path);
  });
});
