/** Traces that a collector of OpenTelemetry gets, over both protocols. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Collector, startCollector, traceOf } from '../support/collector.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { exchangeOf, json, type StartedGateway, user, withGateway } from '../support/with-gateway.ts';

const CHAT = '/v1/chat/completions';
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const fast = { OTEL_BSP_SCHEDULE_DELAY: '20' };
const headersSecret = 'collector-secret-4471';

interface Asked {
  readonly headers?: Record<string, string>;
  readonly messages?: object;
  readonly model?: string;
  readonly stream?: boolean;
}

function chat(gateway: StartedGateway, { headers = {}, ...body }: Asked = {}) {
  return gateway.post(CHAT, { model: 'simulated-small', messages: user('Hello'), ...body }, { headers });
}

/** The exchange id, once the answer was read. */
async function asked(answer: Promise<Response>): Promise<string> {
  const response = await answer;
  await response.text();
  return exchangeOf(response);
}

describe.each(['http/protobuf', 'grpc'])('a gateway that exports by %s', (protocol) => {
  let collector: Collector;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    return {
      env: {
        ...fast,
        ...withGuardrails,
        OTEL_EXPORTER_OTLP_ENDPOINT: protocol === 'grpc' ? collector.grpcUrl : collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_EXPORTER_OTLP_HEADERS: `x-collector-key=${headersSecret}`,
        OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test%20run',
      },
    };
  });
  afterAll(() => collector.close());

  it('sends a server span and a span of the call, with the attributes of the conventions', async () => {
    const id = await asked(chat(gateway, { headers: { 'user-agent': 'probe/1', 'x-session-id': 's-1' } }));
    const { server, spans, named } = await traceOf(collector, id);
    expect(server).toMatchObject({ name: `POST ${CHAT}`, kind: 2, isFailed: false, parentSpanId: '' });
    expect(server.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.route': CHAT,
      'http.response.status_code': 200,
      'url.path': CHAT,
      'user_agent.original': 'probe/1',
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'simulated-small',
      'chancery.user_path': '/',
    });
    expect(server.resource).toMatchObject({
      'service.name': 'chancery',
      'telemetry.sdk.name': 'opentelemetry',
      'deployment.environment.name': 'test run',
      'process.pid': process.pid,
    });
    expect(server.resource['service.instance.id']).toMatch(/./);
    const [call] = named('chat simulated-small');
    expect(call).toMatchObject({ kind: 3, traceId: server.traceId, parentSpanId: server.spanId, isFailed: false });
    expect(call?.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'llamacpp',
      'gen_ai.request.model': 'simulated-small',
      'gen_ai.response.model': 'simulated-small',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.response.id': expect.stringMatching(/./),
      'gen_ai.usage.input_tokens': expect.any(Number),
      'gen_ai.usage.output_tokens': expect.any(Number),
      'chancery.attempt.kind': 'primary',
    });
    for (const { start, end } of spans) expect(end).toBeGreaterThanOrEqual(start);
    expect(call?.start).toBeGreaterThanOrEqual(server.start);
    expect(Object.keys(call?.attributes ?? {})).not.toContain('gen_ai.input.messages');
    expect(JSON.stringify(spans.map(({ attributes }) => attributes))).not.toMatch(/Hello|test-master-key/);
    expect(collector.headers.at(-1)).toMatchObject({ 'x-collector-key': headersSecret });
  });

  it("has the client's span as its parent, and gives the provider a child of it", async () => {
    const headers = { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=one' };
    const id = await asked(chat(gateway, { headers }));
    const { server, named } = await traceOf(collector, id);
    expect(server).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, traceState: 'vendor=one' });
    expect(server.flags & 0x200, 'the parent is of another program').toBe(0x200);
    const [call] = named('chat simulated-small');
    expect(gateway.lastProviderRequest().headers).toMatchObject({
      traceparent: `00-${TRACE}-${call?.spanId}-01`,
      tracestate: 'vendor=one',
    });
    const { events } = await json(await gateway.fetch(`/admin/audit/events?log_id=${id}`));
    for (const { traceparent } of events) expect(traceparent).toBe(`00-${TRACE}-${server.spanId}-01`);
  });

  it('has a span for each attempt and for each guardrail', async () => {
    await saveGuardrail(gateway, { name: 'words', type: 'string_replace', config: { rules: 'bad => good' } });
    await guard(gateway, '/guarded', [{ ref: 'words', phase: 'prompt', step: 0 }]);
    gateway.simulated.control.next({ status: 503, failTimes: 1 });
    const headers = { 'x-gateway-user-path': '/guarded' };
    const id = await asked(chat(gateway, { headers, messages: user('a bad word') }));
    const { server, spans, named } = await traceOf(collector, id);
    const calls = named('chat simulated-small');
    expect(calls.map(({ attributes }) => attributes['chancery.attempt.kind'])).toEqual(['primary', 'retry']);
    expect(calls[0]).toMatchObject({ isFailed: true, attributes: { 'http.response.status_code': 503 } });
    expect(calls[1]).toMatchObject({ isFailed: false, parentSpanId: server.spanId });
    expect(named('guardrail words')).toMatchObject([{ attributes: { 'chancery.guardrail.verdict': 'allow' } }]);
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
    expect(spans.length).toBeGreaterThanOrEqual(4);
  });
});

describe('a gateway that exports', () => {
  let collector: Collector;
  const gateway = withGateway(async () => {
    collector = await startCollector();
    return { env: { ...fast, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces` } };
  });
  afterAll(() => collector.close());

  it("respects a client's decision against sampling, and passes it on", async () => {
    const id = await asked(chat(gateway, { headers: { traceparent: `00-${TRACE}-${PARENT}-00` } }));
    expect(gateway.lastProviderRequest().headers['traceparent']).toMatch(new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
    const next = await asked(chat(gateway));
    await traceOf(collector, next);
    expect(collector.spans.filter(({ attributes }) => attributes['chancery.exchange.id'] === id)).toEqual([]);
  });

  it.each([
    'nonsense',
    `ff-${TRACE}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
  ])('ignores the malformed header %s', async (traceparent) => {
    const answer = await chat(gateway, { headers: { traceparent } });
    expect(answer.status).toBe(200);
    const { server } = await traceOf(collector, exchangeOf(answer));
    expect(server.parentSpanId).toBe('');
    expect(server.traceId).not.toMatch(/^0+$/);
  });

  it.each(['', 'x'.repeat(600), 'v=\u00e9'])('passes a malformed tracestate %# on to nobody', async (tracestate) => {
    const answer = await chat(gateway, { headers: { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate } });
    expect(answer.status).toBe(200);
    expect(gateway.lastProviderRequest().headers['tracestate']).toBeUndefined();
    expect((await traceOf(collector, exchangeOf(answer))).server.traceState).toBe('');
  });

  it('has the time to the first chunk of a stream', async () => {
    const { named } = await traceOf(collector, await asked(chat(gateway, { stream: true })));
    const [call] = named('chat simulated-small');
    expect(call?.attributes).toMatchObject({
      'gen_ai.request.stream': true,
      'gen_ai.response.time_to_first_chunk': expect.any(Number),
    });
  });

  it('has a failed span for a request that fails, with the type of the error', async () => {
    gateway.simulated.control.next({ status: 400, code: 'odd', failTimes: 1 });
    const failed = await traceOf(collector, await asked(chat(gateway)));
    expect(failed.server).toMatchObject({ isFailed: false, attributes: { 'http.response.status_code': 400 } });
    expect(failed.server.attributes['error.type']).toMatch(/./);
    expect(failed.named('chat simulated-small')).toMatchObject([{ isFailed: true }]);
    const refused = await traceOf(collector, await asked(chat(gateway, { model: 'nobody/none' })));
    expect(refused.server.attributes).toMatchObject({
      'http.response.status_code': 404,
      'error.type': 'model_not_found',
    });
  });

  it('has a span of embeddings', async () => {
    const id = await asked(gateway.post('/v1/embeddings', { model: 'simulated-embed', input: 'x' }));
    const { named } = await traceOf(collector, id);
    expect(named('embeddings simulated-embed')).toHaveLength(1);
  });

  it('never exports the key of the caller', async () => {
    expect(JSON.stringify(collector.spans.map(({ attributes, resource }) => [attributes, resource]))).not.toContain(
      MASTER_KEY,
    );
  });
});

describe('OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', () => {
  let collector: Collector;
  const content = (of: { named(name: string): readonly { attributes: Readonly<Record<string, unknown>> }[] }) => {
    const attributes = of.named('chat simulated-small')[0]?.attributes ?? {};
    return { input: attributes['gen_ai.input.messages'], output: attributes['gen_ai.output.messages'] };
  };
  const env = { ...fast, ...withGuardrails, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true' };
  beforeAll(async () => {
    collector = await startCollector();
  });
  afterAll(() => collector.close());

  describe('with recorded bodies', () => {
    const gateway = withGateway(async () => ({ env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } }));

    it.each([false, true])('exports the messages of requests and answers (stream: %s)', async (stream) => {
      gateway.simulated.control.next({ text: 'Good day.' });
      const messages = [{ role: 'system', content: 'Be brief.' }, ...user('Hello')];
      const { input, output } = content(await traceOf(collector, await asked(chat(gateway, { stream, messages }))));
      expect(JSON.parse(String(input))).toEqual([
        { role: 'system', parts: [{ type: 'text', content: 'Be brief.' }] },
        { role: 'user', parts: [{ type: 'text', content: 'Hello' }] },
      ]);
      expect(JSON.parse(String(output))).toEqual([
        { role: 'assistant', parts: [{ type: 'text', content: 'Good day.' }], finish_reason: 'stop' },
      ]);
    });

    it('exports a request as its guardrails let it pass', async () => {
      await saveGuardrail(gateway, { name: 'words', type: 'string_replace', config: { rules: 'secret => ***' } });
      await guard(gateway, '/guarded', [{ ref: 'words', phase: 'prompt', step: 0 }]);
      const headers = { 'x-gateway-user-path': '/guarded' };
      const { input } = content(
        await traceOf(collector, await asked(chat(gateway, { headers, messages: user('a secret') }))),
      );
      expect(input).toContain('a ***');
    });
  });

  describe('without recorded bodies', () => {
    const bodies = { LOGGING_LOG_BODIES: 'false' };
    const gateway = withGateway(async () => ({
      env: { ...env, ...bodies, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    }));

    it('exports no messages', async () => {
      expect(content(await traceOf(collector, await asked(chat(gateway))))).toEqual({
        input: undefined,
        output: undefined,
      });
    });
  });
});
