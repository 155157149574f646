import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import {
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  user,
  weather,
  withGateway,
} from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    simulated: { models: ['simulated-small', 'vendor/family/model-7b', '/srv/models/tiny model.gguf'] },
    register: (url) => ({
      LLAMACPP_BASE_URL: url,
      LLAMACPP_GPU_BASE_URL: url.replace('127.0.0.1', 'localhost'),
      VLLM_BASE_URL: scripted.url,
    }),
  };
});
afterAll(() => scripted.close());

const PATH = '/v1/chat/completions';
const model = 'llamacpp/simulated-small';
const hello = { model, messages: user('Reply with exactly: hello') };

describe('a chat completion', () => {
  it('has exactly the bytes that the provider sent', async () => {
    const bytes =
      '{ "zeta":9007199254740993123,\n\t"id" : "x", "choices":[{"index":0,"message":{"role":"assistant","content":"caf\\u00e9 é 😀"},' +
      '"finish_reason":"stop","mystery":[1.0,1e3,-0]}], "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}, "alpha":null }\n';
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(bytes);
    });
    const answer = await gateway.post(PATH, { ...hello, model: 'vllm/scripted' });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(answer.headers.get('content-length')).toBe(String(Buffer.byteLength(bytes)));
    expect(await answer.text()).toBe(bytes);
  });

  it('reaches the provider with every other byte unchanged', async () => {
    const rest =
      '"seed":9007199254740993123, "temperature":1.0,\n  "x_unknown":{"b":1,"a":[1E2,"\\u0041"]},' +
      '"messages":[{"role":"user","content":"hi","name":"ann\\/a"}], "alpha" : "ü" }';
    const answer = await gateway.post(PATH, `{ "zeta":true, "model" : "${model}",${rest}`);
    expect(answer.status).toBe(200);
    expect(gateway.lastProviderRequest().body).toBe(`{ "zeta":true, "model" : "simulated-small",${rest}`);
  });

  it('reaches the provider without the routing hint, when that is a string', async () => {
    const answer = await gateway.post(
      PATH,
      `{"provider":"llamacpp-gpu","model":"simulated-small","messages":[{"role":"user","content":"hi"}]}`,
    );
    expect(answer.status).toBe(200);
    expect(gateway.lastProviderRequest().body).toBe(
      '{"model":"simulated-small","messages":[{"role":"user","content":"hi"}]}',
    );
    expect(gateway.lastProviderRequest().headers.host).toMatch(/^localhost:/);
  });

  it("keeps a provider's own routing preferences, an object under the same name", async () => {
    const provider = { order: ['one', 'two'], allow_fallbacks: false };
    const answer = await gateway.post(PATH, { ...hello, provider });
    expect(answer.status).toBe(200);
    expect(JSON.parse(gateway.lastProviderRequest().body).provider).toEqual(provider);
  });

  it.each([
    ['<instance>/<model>', 'llamacpp-gpu/simulated-small', 'localhost', 'simulated-small'],
    ['<type>/<model>', 'llamacpp/simulated-small', '127.0.0.1', 'simulated-small'],
    ['a bare id', 'simulated-small', '127.0.0.1', 'simulated-small'],
    ['an id with slashes behind a provider', 'llamacpp/vendor/family/model-7b', '127.0.0.1', 'vendor/family/model-7b'],
    ['a bare id with slashes', 'vendor/family/model-7b', '127.0.0.1', 'vendor/family/model-7b'],
    [
      'a file path behind a provider',
      'llamacpp-gpu//srv/models/tiny model.gguf',
      'localhost',
      '/srv/models/tiny model.gguf',
    ],
    ['a bare file path', '/srv/models/tiny model.gguf', '127.0.0.1', '/srv/models/tiny model.gguf'],
  ])('finds its model by %s', async (_form, selector, host, id) => {
    const answer = await gateway.post(PATH, { ...hello, model: selector });
    expect(answer.status).toBe(200);
    expect(gateway.lastProviderRequest().headers.host).toContain(host);
    expect(JSON.parse(gateway.lastProviderRequest().body).model).toBe(id);
    const resolved = (await eventsOfExchange(gateway, exchangeOf(answer))).find(
      ({ type }) => type === 'model.resolved',
    );
    expect(resolved?.data).toMatchObject({ requested: selector, model: id, providerType: 'llamacpp' });
  });

  it.each([
    ['llamacpp/no-such-model', undefined],
    ['nobody/simulated-small', undefined],
    ['no-such-model', undefined],
    ['no-such-model', 'llamacpp'],
  ])('for the unknown model %s (provider %s) is a 404 without a call to a provider', async (selector, provider) => {
    const before = gateway.simulated.requests.filter(({ method }) => method === 'POST').length;
    const answer = await gateway.post(PATH, { ...hello, model: selector, provider });
    expect(await errorOf(answer, 404)).toMatchObject({
      type: 'not_found_error',
      code: 'model_not_found',
      param: 'model',
      message: expect.stringContaining(selector),
    });
    expect(gateway.simulated.requests.filter(({ method }) => method === 'POST')).toHaveLength(before);
  });

  it('with an unknown provider as its hint is a 400', async () => {
    const answer = await gateway.post(PATH, { ...hello, provider: 'nobody' });
    expect(await errorOf(answer, 400)).toMatchObject({ code: 'unknown_provider', param: 'provider' });
  });

  it('carries the request id of the client, and the id of the exchange', async () => {
    const answer = await gateway.post(PATH, hello, { headers: { 'x-request-id': 'mine-123' } });
    expect(answer.headers.get('x-request-id')).toBe('mine-123');
    expect(gateway.lastProviderRequest().headers['x-request-id']).toBe('mine-123');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ requestId }) => requestId)).toEqual(events.map(() => 'mine-123'));
  });

  it('gets a request id when the client sends none, or one that is unfit for a log', async () => {
    for (const given of [undefined, 'x'.repeat(201), 'with space']) {
      const headers = given === undefined ? undefined : { 'x-request-id': given };
      const answer = await gateway.post(PATH, hello, { headers });
      expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it('passes on tool calls, several choices and log probabilities', async () => {
    const called = await json(
      await gateway.post(PATH, {
        model,
        messages: user('What is the weather in Paris and Rome?'),
        tools: [{ type: 'function', function: weather }],
      }),
    );
    const calls = called.choices[0].message.tool_calls;
    expect(calls.map((call: { function: { name: string } }) => call.function.name)).toEqual([
      'get_weather',
      'get_weather',
    ]);
    expect(called.choices[0].finish_reason).toBe('tool_calls');

    const several = await json(await gateway.post(PATH, { ...hello, n: 3, logprobs: true, top_logprobs: 2 }));
    expect(several.choices).toHaveLength(3);
    expect(several.choices[2].logprobs.content[0].top_logprobs).toHaveLength(2);
  });

  it('is recorded with its usage', async () => {
    const answer = await gateway.post(PATH, hello);
    const { usage } = await json(answer);
    const recorded = (await eventsOfExchange(gateway, exchangeOf(answer))).find(
      ({ type }) => type === 'usage.recorded',
    );
    expect(recorded?.data).toMatchObject({
      provider: 'llamacpp',
      model: 'simulated-small',
      endpoint: PATH,
      inputTokens: usage.prompt_tokens,
      outputTokens: usage.completion_tokens,
      totalTokens: usage.total_tokens,
      source: 'provider',
      raw: usage,
    });
  });

  it('has no invented usage when the provider reports none', async () => {
    gateway.simulated.control.next({ usage: false });
    const answer = await gateway.post(PATH, hello);
    const recorded = (await eventsOfExchange(gateway, exchangeOf(answer))).find(
      ({ type }) => type === 'usage.recorded',
    );
    expect(recorded?.data).toMatchObject({ source: 'unknown', inputTokens: null, outputTokens: null, raw: null });
  });

  it('accepts a body without a content type, and with a wrong one', async () => {
    for (const type of ['', 'text/plain', 'application/json; charset=utf-8', 'application/x-www-form-urlencoded']) {
      const answer = await gateway.post(PATH, JSON.stringify(hello), { headers: { 'content-type': type } });
      expect(answer.status).toBe(200);
    }
  });

  it('is the same whatever the client accepts', async () => {
    for (const accept of ['text/event-stream', '*/*', 'application/json', 'image/png']) {
      const answer = await gateway.post(PATH, hello, { headers: { accept } });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toContain('application/json');
    }
  });

  it('whose client disconnects is cancelled at the provider, and recorded so', async () => {
    gateway.simulated.control.next({ hang: true });
    const providerRequest = gateway.simulated.nextRequest();
    const client = new AbortController();
    const answer = gateway.post(PATH, hello, { signal: client.signal, headers: { 'x-request-id': 'left-json' } });
    const request = await providerRequest;
    client.abort();
    await expect(answer).rejects.toThrow();
    expect(await request.ended).toBe('aborted');
    const events = await eventsUntilOfRequest('left-json', 'client.disconnected');
    expect(events).toEqual(['request.received', 'model.resolved', 'attempt.started', 'client.disconnected']);
  });
});

async function eventsUntilOfRequest(requestId: string, last: string): Promise<string[]> {
  const events = await eventsUntil(gateway, `request_id=${requestId}`, ({ type }) => type === last);
  return events.map(({ type }) => type);
}
