/** How a collector of OpenTelemetry is reached: through a proxy, and by TLS with a certificate on both sides. */
import { afterAll, describe, expect, it } from 'vitest';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { type Collector, startCollector, traceOf } from '../support/collector.ts';
import { type ForwardProxy, startHttpProxy } from '../support/forward-proxies.ts';
import { exchangeOf, type StartedGateway, user, withGateway } from '../support/with-gateway.ts';

const env = { OTEL_BSP_SCHEDULE_DELAY: '20', OTEL_METRICS_EXPORTER: 'none' };

async function exchangeIn(gateway: StartedGateway): Promise<string> {
  const answer = await gateway.post('/v1/chat/completions', { model: 'simulated-small', messages: user('Hello') });
  await answer.text();
  return exchangeOf(answer);
}

describe('a collector behind a proxy', () => {
  let collector: Collector;
  let proxy: ForwardProxy;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    proxy = await startHttpProxy();
    return {
      env: {
        ...env,
        HTTP_PROXY: `http://127.0.0.1:${proxy.port}`,
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url.replace('127.0.0.1', 'collector.test'),
      },
    };
  });
  afterAll(async () => {
    await collector.close();
    await proxy.close();
  });

  it('gets the spans through it', async () => {
    await traceOf(collector, await exchangeIn(gateway));
    expect(proxy.requests.filter((one) => one.includes('collector.test'))).not.toEqual([]);
  });
});

describe.skipIf(missingOpenssl() !== undefined).each(['http/protobuf', 'grpc'])(
  'a collector with TLS, by %s',
  (protocol) => {
    const authority = createAuthority();
    const server = authority.issue('collector', 'IP:127.0.0.1');
    const client = authority.issue('gateway', 'DNS:gateway');
    let collector: Collector;
    const gateway = withGateway(async () => {
      collector = await startCollector({ ca: authority.ca.cert, cert: server.cert, key: server.key });
      return {
        env: {
          ...env,
          OTEL_EXPORTER_OTLP_ENDPOINT: protocol === 'grpc' ? collector.grpcUrl : collector.url,
          OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
          OTEL_EXPORTER_OTLP_CERTIFICATE: authority.ca.certFile,
          OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: client.certFile,
          OTEL_EXPORTER_OTLP_CLIENT_KEY: client.keyFile,
        },
      };
    });
    afterAll(async () => {
      await collector.close();
      authority.remove();
    });

    it('gets the spans with the certificates of the settings', async () => {
      const { spans } = await traceOf(collector, await exchangeIn(gateway));
      expect(spans.length).toBeGreaterThanOrEqual(2);
    });
  },
);
