import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, errorOf, eventsOfExchange, exchangeOf, json, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    register: (url) => ({
      LLAMACPP_BASE_URL: url,
      OPENAI_BASE_URL: scripted.url,
      OPENAI_API_KEY: 'sk-upstream',
      SIMULATED_BASE_URL: scripted.url,
      DEEPSEEK_BASE_URL: scripted.url,
      DEEPSEEK_API_KEY: 'sk-deep',
    }),
    env: { RETRY_INITIAL_BACKOFF: '1ms' },
  };
});
afterAll(() => scripted.close());

const model = 'openai/scripted';
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
const endpoints = [
  ['/v1/completions', { prompt: 'Once' }],
  ['/v1/audio/speech', { input: 'Hello', voice: 'alloy' }],
  ['/v1/images/generations', { prompt: 'a cat' }],
  ['/v1/images/edits', { prompt: 'a cat', images: [{ image_url: 'data:image/png;base64,AAAA' }] }],
  ['/v1/responses/input_tokens', { input: 'Hello' }],
  ['/v1/responses/compact', { input: 'Hello' }],
] as const;

function says(body: object, status = 200): void {
  scripted.script((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
}

describe.each(endpoints)('POST %s', (path, body) => {
  it('goes to the same path of the provider, with its own name for the model, otherwise byte for byte', async () => {
    says({ made: true, usage });
    const text = `{ "model" : "${model}", "rest": ${JSON.stringify(body)},\n "provider":"openai", "n": 1.50 }`;
    const answer = await gateway.post(path, text);
    expect(await json(answer)).toEqual({ made: true, usage });
    const { method, path: requested, headers, body: got } = scripted.last();
    expect([method, requested]).toEqual(['POST', path]);
    expect(headers).toMatchObject({ authorization: 'Bearer sk-upstream', 'content-type': 'application/json' });
    expect(got.toString()).toBe(`{ "model" : "scripted", "rest": ${JSON.stringify(body)}, "n": 1.50 }`);
  });

  it('is recorded', async () => {
    says({ made: true, usage });
    const answer = await gateway.post(path, { model, ...body }, { headers: { 'x-gateway-user-path': '/team/ann' } });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type).filter((type) => type !== 'answer.received')).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(events[0]).toMatchObject({ userPath: '/team/ann', body: JSON.stringify({ model, ...body }) });
    expect(events[0]?.data).toMatchObject({ dialect: 'forward', path, model });
    expect(events[2]?.data).toMatchObject({ dialect: 'forward', provider: 'openai', model: 'scripted' });
    expect(events.at(-1)?.data).toMatchObject({ endpoint: path, model: 'scripted', inputTokens: 3, outputTokens: 4 });
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(metrics).toMatch(new RegExp(`gateway_requests_total{[^}]*model="scripted",endpoint="${path}"`));
  });

  it('requires an object with a known model', async () => {
    says({ made: true });
    for (const [text, status, facts] of [
      ['null', 400, { code: 'invalid_type' }],
      ['[]', 400, { code: 'invalid_type' }],
      ['', 400, { code: 'invalid_json' }],
      [JSON.stringify(body), 400, { code: 'missing_required_parameter', param: 'model' }],
      [JSON.stringify({ ...body, model: null }), 400, { code: 'missing_required_parameter', param: 'model' }],
      [JSON.stringify({ ...body, model: 'nobody/x' }), 404, { code: 'model_not_found' }],
      [JSON.stringify({ ...body, model: 'scripted', provider: 'nobody' }), 400, { code: 'unknown_provider' }],
    ] as const) {
      const error = await errorOf(await gateway.post(path, text), status);
      expect(error).toMatchObject({ ...facts });
      expect(error).not.toHaveProperty('provider');
    }
  });

  it("returns the provider's error, and is retried when the provider is busy", async () => {
    says({ error: { message: 'no luck', code: 'unlucky', param: 'x' } }, 400);
    expect(await errorOf(await gateway.post(path, { model, ...body }), 400)).toMatchObject({
      message: 'no luck',
      provider: 'openai',
    });
    let calls = 0;
    scripted.script((_request, response) => {
      calls += 1;
      response.writeHead(calls < 3 ? 503 : 200, { 'content-type': 'application/json' }).end('{"made":true}');
    });
    expect((await gateway.post(path, { model, ...body })).status).toBe(200);
    expect(calls).toBe(3);
  });

  it('does not accept an error in a 200, or a redirect, as an answer', async () => {
    says({ error: { message: 'out of memory' } });
    expect(await errorOf(await gateway.post(path, { model, ...body }), 502)).toMatchObject({
      message: 'out of memory',
    });
    scripted.script((_request, response) => response.writeHead(302, { location: '/elsewhere' }).end());
    expect(await errorOf(await gateway.post(path, { model, ...body }), 502)).toMatchObject({ provider: 'openai' });
  });
});

describe('POST /v1/completions', () => {
  it('leaves an idempotency key to the provider', async () => {
    for (let call = 1; call <= 2; call++) {
      says({ made: call });
      const headers = { 'idempotency-key': 'k-1' };
      expect(await json(await gateway.post('/v1/completions', { model, prompt: 'x' }, { headers }))).toEqual({
        made: call,
      });
      expect(scripted.last().headers['idempotency-key']).toBe('k-1');
    }
  });

  it('streams the events of the provider unchanged, and records their cost', async () => {
    const events = [
      'data: {"choices":[{"text":"a"}]}\n\n',
      `data: {"choices":[],"usage":${JSON.stringify(usage)}}\n\n`,
      'data: [DONE]\n\n',
    ];
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(events.join(''));
    });
    const answer = await gateway.post('/v1/completions', { model, prompt: 'x', stream: true });
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    expect(await answer.text()).toBe(events.join(''));
    expect(scripted.last().headers.accept).toBe('text/event-stream');
    const received = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(received.filter(({ type }) => type === 'chunk.received').map(({ body }) => body)).toEqual(events);
    expect(received.at(-1)?.data).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  it('works with the simulated provider, by its bare model id', async () => {
    const answer = await gateway.post('/v1/completions', { model: 'simulated-small', prompt: 'Once upon a time' });
    expect((await json(answer)).object).toBe('text_completion');
    expect(gateway.lastProviderRequest().path).toBe('/v1/completions');
  });

  it('ends a stream that stops before its finish reason with an error', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end('data: {"choices":[{"text":"a","finish_reason":null}]}\n\n');
    });
    const answer = await gateway.post('/v1/completions', { model, prompt: 'x', stream: true });
    const error = { code: 'stream_incomplete', provider: 'openai' };
    expect(dataOf(await answer.text()).at(-1)).toMatchObject({ error });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({ reason: 'stream_broken' });
  });

  it('ends a stream in which the provider reports an error with that error', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"choices":[{"text":"a"}]}\n\n');
      response.end('data: {"error":{"message":"bad key sk-upstream","code":"oom"}}\n\n');
    });
    const answer = await gateway.post('/v1/completions', { model, prompt: 'x', stream: true });
    const text = await answer.text();
    expect(dataOf(text).at(-1)).toMatchObject({ error: { code: 'oom', provider: 'openai' } });
    expect(text).not.toContain('sk-upstream');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({ reason: 'stream_broken' });
    expect(JSON.stringify(events)).not.toContain('sk-upstream');
  });
});

// The gateway itself compacts where a provider cannot.
describe.each(endpoints.filter(([path]) => path !== '/v1/responses/compact'))('POST %s', (path, body) => {
  it('is a 501 that is not retried, where a provider is known to lack the endpoint', async () => {
    says({ made: true });
    const answer = await gateway.post(path, { model: 'deepseek/scripted', ...body });
    expect(answer.headers.get('x-should-retry')).toBe('false');
    const { code, message, type } = await errorOf(answer, 501);
    expect(type).toBe('invalid_request_error');
    expect(code).toBe(path.startsWith('/v1/responses') ? 'unsupported_response_operation' : 'unsupported_operation');
    expect(message).toMatch(/is not supported by this provider\.$/);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type: one }) => one)).toEqual(['request.received', 'model.resolved', 'request.refused']);
  });

  it('is the same 501 where a provider turns out to lack the endpoint, but not where it lacks the model', async () => {
    const send = () => gateway.post(path, { model: 'simulated/scripted', ...body });
    for (const [status, text] of [
      [404, '{"detail":"Not Found"}'],
      [404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'],
      [404, '404 page not found'],
      [405, '{"detail":"Method Not Allowed"}'],
      [501, '{"error":{"message":"This server does not support it."}}'],
    ] as const) {
      scripted.script((_request, response) => response.writeHead(status).end(text));
      const answer = await send();
      expect(answer.headers.get('x-should-retry')).toBe('false');
      expect((await errorOf(answer, 501)).code).toMatch(/^unsupported_(response_)?operation$/);
    }
    for (const text of [
      '{"error":{"message":"The model does not exist","code":"model_not_found"}}',
      '{"object":"error","message":"`scripted` does not exist.","code":404}',
    ]) {
      scripted.script((_request, response) => response.writeHead(404).end(text));
      expect((await errorOf(await send(), 404)).provider).toBe('simulated');
    }
  });
});

describe('POST /v1/responses/compact', () => {
  it('has a summary by the model where a provider turns out to lack the endpoint, as a second attempt', async () => {
    scripted.script(({ path }, response) => {
      if (path.endsWith('/compact')) {
        response.writeHead(404).end('{"detail":"Not Found"}');
        return;
      }
      const choices = [{ index: 0, message: { role: 'assistant', content: 'A summary.' }, finish_reason: 'stop' }];
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ id: 'c', choices }));
    });
    const answer = await gateway.post('/v1/responses/compact', { model: 'simulated/scripted', input: 'Hello' });
    expect(answer.status, await answer.clone().text()).toBe(200);
    expect(await json(answer)).toMatchObject({ object: 'response.compaction', output: [{}, { type: 'compaction' }] });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const attempts = events.filter(({ type }) => type === 'attempt.started');
    expect(attempts.map(({ data }) => data.kind)).toEqual(['primary', 'translation']);
  });
});

describe.each([
  ['/v1/responses/input_tokens', { object: 'response.input_tokens', input_tokens: 7 }],
  ['/v1/responses/compact', { id: 'cmp_1', object: 'response.compaction', created_at: 1, output: [], usage: null }],
])('POST %s', (path, result) => {
  it('leaves out members that only a response supports', async () => {
    says(result);
    const answer = await gateway.post(path, { model, input: 'x', stream: true, stream_options: { a: 1 }, tools: [] });
    expect(await json(answer)).toEqual(result);
    expect(JSON.parse(scripted.last().body.toString())).toEqual({ model: 'scripted', input: 'x', tools: [] });
  });

  it('includes earlier turns, when another provider made them', async () => {
    const first = await json(await gateway.post('/v1/responses', { model: 'llamacpp/simulated-small', input: 'one' }));
    says(result);
    const answer = await gateway.post(path, { model, input: 'two', previous_response_id: first.id });
    expect(answer.status).toBe(200);
    const requestBody = JSON.parse(scripted.last().body.toString());
    expect(requestBody).not.toHaveProperty('previous_response_id');
    expect(JSON.stringify(requestBody.input)).toMatch(/one.*two/);
  });

  it('does not include turns of another tenant', async () => {
    const headers = { 'x-gateway-user-path': '/team/ann' };
    const body = { model: 'llamacpp/simulated-small', input: 'one' };
    const first = await json(await gateway.post('/v1/responses', body, { headers }));
    says(result);
    const others = { headers: { 'x-gateway-user-path': '/team/bob' } };
    for (const id of [first.id, 'resp_of_somebody']) {
      const answer = await gateway.post(path, { model, input: 'two', previous_response_id: id }, others);
      expect(await errorOf(answer, 404)).toMatchObject({ param: 'previous_response_id' });
    }
  });
});
