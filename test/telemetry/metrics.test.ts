/** Metrics that a collector of OpenTelemetry gets. */
import { afterAll, describe, expect, it } from 'vitest';
import { type Collector, startCollector } from '../support/collector.ts';
import { user, withGateway } from '../support/with-gateway.ts';

describe.each(['http/protobuf', 'grpc'])('a gateway that exports metrics by %s', (protocol) => {
  let collector: Collector;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    return {
      env: {
        OTEL_METRICS_EXPORTER: 'otlp',
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: protocol === 'grpc' ? collector.grpcUrl : `${collector.url}/v1/metrics`,
        OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: protocol,
        OTEL_METRIC_EXPORT_INTERVAL: '100',
      },
    };
  });
  afterAll(() => collector.close());

  const point = (metric: string, attributes: object = {}) =>
    collector.until(() =>
      collector.points.findLast(
        (one) =>
          one.metric === metric && Object.entries(attributes).every(([name, value]) => one.attributes[name] === value),
      ),
    );

  it('sends the figures of /metrics and the histograms of the conventions', async () => {
    const body = { model: 'simulated-small', messages: user('Hello'), stream: true };
    await (await gateway.post('/v1/chat/completions', body)).text();
    const of = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'llamacpp',
      'gen_ai.request.model': 'simulated-small',
    };
    const duration = await point('gen_ai.client.operation.duration', of);
    expect(duration).toMatchObject({ unit: 's', histogram: { count: 1 } });
    expect(duration.histogram?.bounds.slice(0, 3)).toEqual([0.01, 0.02, 0.04]);
    const output = await point('gen_ai.client.token.usage', { ...of, 'gen_ai.token.type': 'output' });
    expect(output.histogram).toMatchObject({ count: 1, sum: expect.any(Number) });
    expect((await point('gen_ai.server.time_to_first_token', of)).histogram?.count).toBe(1);
    const labels = { provider: 'llamacpp', model: 'simulated-small', status_code: '200' };
    expect(await point('gateway_requests_total', labels)).toMatchObject({ value: 1 });
    const seconds = await point('gateway_request_duration_seconds', { model: 'simulated-small' });
    expect(seconds).toMatchObject({ unit: 's', histogram: { count: 1 } });
    expect(seconds.histogram?.counts.reduce((sum, each) => sum + each, 0)).toBe(1);
    expect(seconds.histogram?.counts).toHaveLength((seconds.histogram?.bounds.length ?? 0) + 1);
    expect(await point('gateway_log_available')).toMatchObject({ value: 1, resource: { 'service.name': 'chancery' } });
    expect(collector.spans).toEqual([]);
  });

  it("passes the client's own traceparent on", async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const body = { model: 'simulated-small', messages: user('Hello') };
    await (await gateway.post('/v1/chat/completions', body, { headers: { traceparent } })).text();
    expect(gateway.lastProviderRequest().headers['traceparent']).toBe(traceparent);
  });
});
