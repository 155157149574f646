/** Telemetry of a gateway as users run it: as its bundle, and with several workers. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask, killAll, serve, stopGateway, temporaryFolder } from '../e2e/gateway-process.ts';
import { type Collector, startCollector } from '../support/collector.ts';
import { user } from '../support/with-gateway.ts';

const secret = 'collector-secret-5512';
const simulated = createSimulatedProvider({});
const data = temporaryFolder();
let collector: Collector;
let upstream: string;

beforeAll(async () => {
  upstream = await simulated.listen();
});
afterEach(async () => {
  killAll();
  await collector.close();
});
afterAll(async () => {
  await simulated.close();
  data.remove();
});

async function start(env: Record<string, string>) {
  collector = await startCollector();
  return serve({
    dataDir: data.path,
    env: {
      LLAMACPP_BASE_URL: upstream,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: `api-key=${secret}`,
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_METRIC_EXPORT_INTERVAL: '200',
      ...env,
    },
  });
}

const chat = (url: string) =>
  ask(url, '/v1/chat/completions', { json: { model: 'simulated-small', messages: user('Hello') } });

describe('a gateway as a process', () => {
  it('exports, reports a collector that fails once, and sends what is left when it stops', {
    timeout: 60_000,
  }, async () => {
    const gateway = await start({});
    expect((await chat(gateway.url)).status).toBe(200);
    await collector.until(() => collector.spans.find(({ kind }) => kind === 2));
    await collector.until(() => collector.points.find(({ metric }) => metric === 'gateway_requests_total'));
    collector.fail(500);
    const failed = () => [...gateway.process.stderr.matchAll(/OpenTelemetry: traces cannot be exported/g)].length;
    await chat(gateway.url);
    await expect.poll(failed).toBe(1);
    await chat(gateway.url);
    collector.fail(undefined);
    await chat(gateway.url);
    await expect.poll(() => gateway.process.stderr).toContain('OpenTelemetry: traces are exported again');
    expect(failed()).toBe(1);
    const before = collector.spans.length;
    await chat(gateway.url);
    await stopGateway(gateway);
    expect(collector.spans.length).toBeGreaterThan(before);
    expect(gateway.process.stdout + gateway.process.stderr).not.toContain(secret);
  });

  it('exports from each worker', { timeout: 60_000 }, async () => {
    const gateway = await start({ GATEWAY_WORKERS: '2' });
    const instances = () => new Set(collector.points.map(({ resource }) => resource['service.instance.id']));
    await collector.until(() => (instances().size === 2 ? true : undefined));
    expect((await chat(gateway.url)).status).toBe(200);
    await collector.until(() => collector.spans.find(({ kind }) => kind === 3));
  });
});
