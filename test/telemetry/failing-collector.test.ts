/** A collector of OpenTelemetry that fails costs no request, and is visible. */
import { afterAll, describe, expect, it } from 'vitest';
import { type Collector, startCollector } from '../support/collector.ts';
import { json, user, withGateway } from '../support/with-gateway.ts';

const chat = { model: 'simulated-small', messages: user('Hello') };
const secret = 'collector-secret-9924';

describe.each(['http/protobuf', 'grpc'])('a collector that fails, by %s', (protocol) => {
  let collector: Collector;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    collector.fail(400);
    return {
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === 'grpc' ? collector.grpcUrl : collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${secret}`,
        OTEL_METRICS_EXPORTER: 'none',
        OTEL_BSP_SCHEDULE_DELAY: '20',
      },
    };
  });
  afterAll(() => collector.close());

  const ready = async () => json(await gateway.fetch('/health/ready'));
  const counted = async (name: string) => {
    const text = await (await gateway.fetch('/metrics')).text();
    return Number(new RegExp(`^gateway_otlp_${name}_total (\\d+)$`, 'm').exec(text)?.[1]);
  };

  it('is shown by readiness and by a metric until it works again, while requests are served', async () => {
    expect((await gateway.post('/v1/chat/completions', chat)).status).toBe(200);
    await expect.poll(() => counted('failed_spans')).toBe(2);
    expect(await ready()).toMatchObject({ status: 'degraded', components: { telemetry: 'failing' } });
    expect((await gateway.post('/v1/chat/completions', chat)).status).toBe(200);
    await expect.poll(() => counted('failed_spans')).toBe(4);

    collector.fail(undefined);
    expect((await gateway.post('/v1/chat/completions', chat)).status).toBe(200);
    await expect.poll(() => counted('exported_spans')).toBe(2);
    expect(await ready()).toMatchObject({ status: 'ready', components: { telemetry: 'ok' } });
    expect(JSON.stringify(collector.headers)).toContain(secret);
  });
});

describe('a collector that never answers', () => {
  let collector: Collector;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    collector.fail('hang');
    return {
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_METRICS_EXPORTER: 'none',
        OTEL_BSP_SCHEDULE_DELAY: '1',
        OTEL_BSP_MAX_QUEUE_SIZE: '10',
        OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '10',
      },
    };
  });
  afterAll(() => collector.close());

  it('leaves a bounded number of spans waiting; the others are dropped and counted', async () => {
    for (let n = 0; n < 20; n++) expect((await gateway.post('/v1/chat/completions', chat)).status).toBe(200);
    const dropped = async () => {
      const text = await (await gateway.fetch('/metrics')).text();
      return Number(/^gateway_otlp_dropped_spans_total (\d+)$/m.exec(text)?.[1]);
    };
    await expect.poll(dropped).toBe(30);
  });
});

describe('an address at which nothing is a collector', () => {
  const gateway = withGateway(async () => {
    const { url, close } = await startCollector();
    await close();
    return { env: { OTEL_EXPORTER_OTLP_ENDPOINT: url } };
  });

  it('keeps no request waiting', async () => {
    expect((await gateway.post('/v1/chat/completions', chat)).status).toBe(200);
  });
});
