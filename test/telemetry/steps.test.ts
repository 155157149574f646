/** Spans of steps that wait, and what the record has of a trace. */
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { pluginFolder, source } from '../plugins/plugin-files.ts';
import { type Collector, startCollector, traceOf } from '../support/collector.ts';
import { exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

const plugin = source(
  `async request(request, { models }) {
     if (request.headers['x-test'] !== 'judge') return undefined;
     await models.chat({ model: 'simulated-small', messages: [{ role: 'user', content: 'fine' }], maxTokens: 5 });
     return { labels: ['judged'] };
   }`,
  { name: 'judge' },
);

describe('a traced exchange', () => {
  const { folder, remove } = pluginFolder({ 'judge.ts': plugin });
  let collector: Collector;
  afterAll(async () => {
    await collector.close();
    remove();
  });
  const gateway = withGateway(async () => {
    collector = await startCollector();
    return {
      env: {
        OTEL_BSP_SCHEDULE_DELAY: '20',
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`,
        PLUGINS_ENABLED: 'true',
        PLUGINS: JSON.stringify([{ path: join(folder, 'judge.ts') }]),
        RESPONSE_CACHE_ENABLED: 'true',
      },
    };
  });
  const chat = (headers: Record<string, string> = {}, content = 'Hello') =>
    gateway.post('/v1/chat/completions', { model: 'simulated-small', messages: user(content) }, { headers });

  it('has a span for each plugin, and the exchanges that it causes in its trace', async () => {
    const answer = await chat({ 'x-test': 'judge' });
    await answer.text();
    const { server, named } = await traceOf(collector, exchangeOf(answer));
    const [step] = named('plugin judge');
    expect(step).toMatchObject({ kind: 1, parentSpanId: server.spanId, isFailed: false });
    const caused = await collector.until(() =>
      collector.spans.find(({ kind, parentSpanId }) => kind === 2 && parentSpanId === server.spanId),
    );
    expect(caused).toMatchObject({ traceId: server.traceId, name: 'POST /v1/chat/completions' });
    expect(server.attributes['chancery.labels']).toEqual(['judged']);
  });

  it('has no call of a provider when the cache answers', async () => {
    await (await chat({}, 'again')).text();
    const answer = await chat({}, 'again');
    await answer.text();
    const { server, named } = await traceOf(collector, exchangeOf(answer));
    expect(server.attributes).toMatchObject({ 'chancery.cache': 'exact', 'gen_ai.operation.name': 'chat' });
    expect(named('chat simulated-small')).toEqual([]);
  });

  it('is found by its trace, also when the gateway began it', async () => {
    const answer = await chat({}, 'find me');
    await answer.text();
    const { server } = await traceOf(collector, exchangeOf(answer));
    const { events } = await json(await gateway.fetch(`/admin/audit/events?log_id=${exchangeOf(answer)}`));
    expect(events.map(({ traceparent }: { traceparent: string }) => traceparent.split('-')[1])).toEqual(
      events.map(() => server.traceId),
    );
  });
});
