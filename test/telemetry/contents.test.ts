/** What exports do not contain: words of a prompt that a provider repeats in its answer. */
import { afterAll, describe, expect, it } from 'vitest';
import { type Collector, startCollector, traceOf } from '../support/collector.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { exchangeOf, user, withGateway } from '../support/with-gateway.ts';

describe('a provider that repeats the prompt', () => {
  let collector: Collector;
  let provider: ScriptedProvider;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    provider = await startScriptedProvider();
    const env = {
      LLAMACPP_BASE_URL: provider.url,
      RETRY_MAX_RETRIES: '0',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_METRIC_EXPORT_INTERVAL: '100',
    };
    return { simulated: false, env };
  });
  afterAll(async () => {
    await collector.close();
    await provider.close();
  });

  async function traced(status: number, answer: object, content: string) {
    provider.script((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
    const response = await gateway.post('/v1/chat/completions', { model: 'scripted', messages: user(content) });
    expect(await response.text()).toContain(content);
    const trace = await traceOf(collector, exchangeOf(response));
    expect(JSON.stringify(trace.spans.map(({ name, attributes }) => [name, attributes]))).not.toContain(content);
    return trace;
  }

  /** Of an export that began after now. */
  async function metrics() {
    const { length } = collector.points;
    await collector.until(() => collector.points.slice(length).find(({ metric }) => metric.startsWith('gen_ai')));
    const { length: next } = collector.points;
    await collector.until(() => collector.points.slice(next).find(({ metric }) => metric.startsWith('gen_ai')));
    return JSON.stringify(collector.points.map(({ attributes }) => attributes));
  }

  it.each([
    [400, 'classified', '400'],
    [400, 'two words', '400'],
    [200, 'classified', '502'],
  ])('exports the status of an error (%i) with the code "%s"', async (status, code, error) => {
    const { server, named } = await traced(status, { error: { message: code, type: code, code } }, code);
    expect(server.attributes['error.type']).toBe('provider_error');
    expect(named('chat scripted')[0]?.attributes['error.type']).toBe(error);
    expect(await metrics()).not.toContain(code);
  });

  it('exports the code of an error that providers share', async () => {
    const code = 'context_length_exceeded';
    const answer = { error: { message: 'much text', code } };
    const { server, named } = await traced(400, answer, 'much text');
    expect(server.attributes['error.type']).toBe(code);
    expect(named('chat scripted')[0]?.attributes['error.type']).toBe(code);
  });

  it.each(['classified', 'two words'])(
    'exports the finish reason "%s" as other, and no id of two words',
    async (said) => {
      const message = { role: 'assistant', content: said };
      const answer = {
        ...{ id: `of ${said}`, object: 'chat.completion', created: 1, model: said },
        choices: [{ index: 0, finish_reason: said, message }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      };
      const { named } = await traced(200, answer, said);
      const { attributes } = named('chat scripted')[0] ?? {};
      expect(attributes).toMatchObject({
        'gen_ai.response.finish_reasons': ['other'],
        'gen_ai.response.model': 'scripted',
      });
      expect(attributes).not.toHaveProperty(['gen_ai.response.id']);
      expect(await metrics()).not.toContain(said);
    },
  );

  it('exports a model that a client names only in the form of a name', async () => {
    const response = await gateway.post('/v1/chat/completions', { model: 'llamacpp/two words', messages: user('x') });
    await response.text();
    const { spans } = await traceOf(collector, exchangeOf(response));
    expect(JSON.stringify(spans.map(({ name, attributes }) => [name, attributes]))).not.toContain('two words');
  });
});
