import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { RawClient } from '../support/raw-client.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import {
  dataOf,
  errorOf,
  eventsOf,
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
  it('is the very bytes the provider sent', async () => {
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

  it('reaches the provider with every other byte as the client wrote it', async () => {
    const rest =
      '"seed":9007199254740993123, "temperature":1.0,\n  "x_unknown":{"b":1,"a":[1E2,"\\u0041"]},' +
      '"messages":[{"role":"user","content":"hi","name":"ann\\/a"}], "alpha" : "ü" }';
    const answer = await gateway.post(PATH, `{ "zeta":true, "model" : "${model}",${rest}`);
    expect(answer.status).toBe(200);
    expect(gateway.lastAsked().body).toBe(`{ "zeta":true, "model" : "simulated-small",${rest}`);
  });

  it('reaches the provider without the routing hint, when that is a string', async () => {
    const answer = await gateway.post(PATH, `{"provider":"llamacpp-gpu","model":"simulated-small","messages":[{"role":"user","content":"hi"}]}`);
    expect(answer.status).toBe(200);
    expect(gateway.lastAsked().body).toBe('{"model":"simulated-small","messages":[{"role":"user","content":"hi"}]}');
    expect(gateway.lastAsked().headers.host).toMatch(/^localhost:/);
  });

  it("keeps a provider's own routing preferences, an object under the same name", async () => {
    const provider = { order: ['one', 'two'], allow_fallbacks: false };
    const answer = await gateway.post(PATH, { ...hello, provider });
    expect(answer.status).toBe(200);
    expect(JSON.parse(gateway.lastAsked().body).provider).toEqual(provider);
  });

  it.each([
    ['<instance>/<model>', 'llamacpp-gpu/simulated-small', 'localhost', 'simulated-small'],
    ['<type>/<model>', 'llamacpp/simulated-small', '127.0.0.1', 'simulated-small'],
    ['a bare id', 'simulated-small', '127.0.0.1', 'simulated-small'],
    ['an id with slashes behind a provider', 'llamacpp/vendor/family/model-7b', '127.0.0.1', 'vendor/family/model-7b'],
    ['a bare id with slashes', 'vendor/family/model-7b', '127.0.0.1', 'vendor/family/model-7b'],
    ['a file path behind a provider', 'llamacpp-gpu//srv/models/tiny model.gguf', 'localhost', '/srv/models/tiny model.gguf'],
    ['a bare file path', '/srv/models/tiny model.gguf', '127.0.0.1', '/srv/models/tiny model.gguf'],
  ])('finds its model by %s', async (_form, selector, host, id) => {
    const answer = await gateway.post(PATH, { ...hello, model: selector });
    expect(answer.status).toBe(200);
    expect(gateway.lastAsked().headers.host).toContain(host);
    expect(JSON.parse(gateway.lastAsked().body).model).toBe(id);
    const resolved = (await eventsOfExchange(gateway, exchangeOf(answer))).find(({ type }) => type === 'model.resolved');
    expect(resolved?.data).toMatchObject({ requested: selector, model: id, providerType: 'llamacpp' });
  });

  it.each([
    ['llamacpp/no-such-model', undefined],
    ['nobody/simulated-small', undefined],
    ['no-such-model', undefined],
    ['no-such-model', 'llamacpp'],
  ])('for the unknown model %s (provider %s) is a 404 that calls nobody', async (selector, provider) => {
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
    expect(gateway.lastAsked().headers['x-request-id']).toBe('mine-123');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ requestId }) => requestId)).toEqual(events.map(() => 'mine-123'));
  });

  it('gets a request id when the client sends none, or none that is fit for a log', async () => {
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
    expect(calls.map((call: { function: { name: string } }) => call.function.name)).toEqual(['get_weather', 'get_weather']);
    expect(called.choices[0].finish_reason).toBe('tool_calls');

    const several = await json(await gateway.post(PATH, { ...hello, n: 3, logprobs: true, top_logprobs: 2 }));
    expect(several.choices).toHaveLength(3);
    expect(several.choices[2].logprobs.content[0].top_logprobs).toHaveLength(2);
  });

  it('is on the record with its usage', async () => {
    const answer = await gateway.post(PATH, hello);
    const { usage } = await json(answer);
    const recorded = (await eventsOfExchange(gateway, exchangeOf(answer))).find(({ type }) => type === 'usage.recorded');
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

  it('makes nothing up when the provider reports no usage', async () => {
    gateway.simulated.control.next({ usage: false });
    const answer = await gateway.post(PATH, hello);
    const recorded = (await eventsOfExchange(gateway, exchangeOf(answer))).find(({ type }) => type === 'usage.recorded');
    expect(recorded?.data).toMatchObject({ source: 'unknown', inputTokens: null, outputTokens: null, raw: null });
  });

  it('takes a body without a content type, and one that says it is something else', async () => {
    for (const type of ['', 'text/plain', 'application/json; charset=utf-8', 'application/x-www-form-urlencoded']) {
      const answer = await gateway.post(PATH, JSON.stringify(hello), { headers: { 'content-type': type } });
      expect(answer.status).toBe(200);
    }
  });

  it('is answered the same whatever the client accepts', async () => {
    for (const accept of ['text/event-stream', '*/*', 'application/json', 'image/png']) {
      const answer = await gateway.post(PATH, hello, { headers: { accept } });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toContain('application/json');
    }
  });

  it('that nobody waits for any more is cancelled at the provider, and told in the log', async () => {
    gateway.simulated.control.next({ hang: true });
    const asked = gateway.simulated.nextRequest();
    const client = new AbortController();
    const answer = gateway.post(PATH, hello, { signal: client.signal, headers: { 'x-request-id': 'left-json' } });
    const request = await asked;
    client.abort();
    await expect(answer).rejects.toThrow();
    expect(await request.ended).toBe('aborted');
    const events = await eventsUntilOfRequest('left-json', 'client.disconnected');
    expect(events).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'attempt.failed',
      'client.disconnected',
    ]);
  });
});

describe('a chat completion stream', () => {
  const stream = { ...hello, stream: true };

  it('is the very bytes the provider sent, whatever their form', async () => {
    const bytes = [
      ': a comment\r\n\r\n',
      'event: odd\r\ndata: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"n":9007199254740993123}\r\n\r\n',
      'id: 7\nretry: 10\ndata:{"choices":[{"index":0,\ndata:"delta":{"content":"é😀"}}]}\n\n',
      'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\n',
      'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":5,"total_tokens":9}}\n\n',
      'data: [DONE]\n\n',
    ];
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      for (const one of bytes) response.write(one);
      response.end();
    });
    const answer = await gateway.post(PATH, { ...stream, model: 'vllm/scripted', stream_options: { include_usage: true } });
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(await answer.text()).toBe(bytes.join(''));
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.filter(({ type }) => type === 'chunk.received').map(({ body }) => body)).toEqual(bytes);
    expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({ inputTokens: 4, outputTokens: 5 });
  });

  it('has the headers that keep proxies from holding it up', async () => {
    const answer = await gateway.post(PATH, stream, { headers: { 'x-request-id': 'stream-1' } });
    expect(answer.status).toBe(200);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': expect.stringContaining('no-cache'),
      'x-accel-buffering': 'no',
      'x-request-id': 'stream-1',
      'x-exchange-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(answer.headers.get('content-length')).toBeNull();
    await answer.text();
  });

  it('ends with one usage chunk when the client asks for it', async () => {
    const answer = await gateway.post(PATH, { ...stream, stream_options: { include_usage: true } });
    const text = await answer.text();
    const usage = dataOf(text).filter(({ choices }) => choices.length === 0);
    expect(usage).toHaveLength(1);
    expect(usage[0].usage).toMatchObject({ prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) });
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it.each([
    ['says nothing about it', {}],
    ['declines it', { stream_options: { include_usage: false } }],
    ['sets another option', { stream_options: { x_other: 1 } }],
    ['sends null', { stream_options: null }],
  ])('has no usage chunk when the client %s, though it is recorded', async (_what, options) => {
    const answer = await gateway.post(PATH, { ...stream, ...options });
    const text = await answer.text();
    expect(dataOf(text).filter(({ choices }) => choices.length === 0)).toEqual([]);
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(JSON.parse(gateway.lastAsked().body).stream_options).toEqual({
      ...(options.stream_options ?? {}),
      include_usage: true,
    });
    const recorded = (await eventsOfExchange(gateway, exchangeOf(answer))).find(({ type }) => type === 'usage.recorded');
    expect(recorded?.data).toMatchObject({ source: 'provider', totalTokens: expect.any(Number) });
  });

  it('says the same as the answer in one piece', async () => {
    const asked = { model, messages: user('Tell me something.') };
    const whole = await json(await gateway.post(PATH, asked));
    const chunks = dataOf(await (await gateway.post(PATH, { ...asked, stream: true })).text());
    expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')).toBe(whole.choices[0].message.content);
    expect(chunks.at(-1).choices[0].finish_reason).toBe('stop');
  });

  it('passes on tool calls and several choices', async () => {
    const called = await gateway.post(PATH, {
      ...stream,
      messages: user('What is the weather in Paris?'),
      tools: [{ type: 'function', function: weather }],
    });
    const deltas = dataOf(await called.text()).flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    expect(deltas[0]).toMatchObject({ index: 0, id: expect.any(String), function: { name: 'get_weather' } });
    const args = deltas.map((delta) => delta.function.arguments ?? '').join('');
    expect(JSON.parse(args)).toMatchObject({ city: 'Paris' });

    const several = dataOf(await (await gateway.post(PATH, { ...stream, n: 2 })).text());
    const indexes = new Set(several.flatMap(({ choices }) => choices.map(({ index }: { index: number }) => index)));
    expect(indexes).toEqual(new Set([0, 1]));
  });

  it.each([
    ['in pieces of seven bytes', { splitEvery: 7 }],
    ['all at once', { coalesce: true }],
    ['with CR LF and comments', { crlf: true, comments: true }],
  ])('reaches the client in whole events when the provider writes it %s', async (_how, fault) => {
    gateway.simulated.control.next({ ...fault, words: 4 });
    const client = await RawClient.open(gateway.url);
    const body = JSON.stringify({ ...stream, messages: user('héllo wörld') });
    client.send(
      `POST ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
    const answer = await client.answer();
    client.close();
    expect(answer?.status).toBe(200);
    expect(answer?.chunks.length).toBeGreaterThan(0);
    for (const chunk of answer?.chunks ?? []) expect(chunk.toString()).toMatch(/^(data|:)[^]*(\n\n|\r\n\r\n)$/);
    const said = dataOf(answer?.body.toString() ?? '').map((chunk) => chunk.choices[0]?.delta.content ?? '');
    expect(said.join('').length).toBeGreaterThan(0);
    expect(eventsOf(answer?.body.toString() ?? '').at(-1)?.data).toBe('[DONE]');
  });

  it('is one write per event when the provider takes its time', async () => {
    gateway.simulated.control.next({ words: 5, paceMs: 5 });
    const client = await RawClient.open(gateway.url);
    const body = JSON.stringify({ ...stream, messages: user('hi') });
    client.send(
      `POST ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const { chunks = [] } = (await client.answer()) ?? {};
    client.close();
    expect(chunks.map((chunk) => eventsOf(chunk.toString()).length)).toEqual(chunks.map(() => 1));
    expect(chunks.length).toBe(8);
  });

  it('gives each event on as soon as it comes', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 3 });
    const answer = await gateway.post(PATH, stream);
    const reader = (answer.body ?? failed()).pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (eventsOf(text).length < 3) text += (await reader.read()).value;
    expect(gateway.lastAsked().outcome).toBe('open');
    gateway.simulated.control.release();
    for (let more = await reader.read(); !more.done; more = await reader.read()) text += more.value;
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('comes whole to a client that reads nothing for a while, and holds nobody else up', async () => {
    const big = 'a long text. '.repeat(1_000_000);
    gateway.simulated.control.next({ text: big, tokensPerChunk: 4000 });
    const slow = httpRequest(`${gateway.url}${PATH}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${MASTER_KEY}` },
      highWaterMark: 1024,
    });
    slow.end(JSON.stringify(stream));
    const [response] = await once(slow, 'response');
    for (let other = 0; other < 5; other++) expect((await gateway.post(PATH, hello)).status).toBe(200);
    const slowOne = gateway.simulated.requests.find(({ body, outcome }) => outcome === 'open' && body.includes('"stream"'));
    expect(slowOne?.outcome).toBe('open');
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    expect(dataOf(text).map((chunk) => chunk.choices[0].delta.content ?? '').join('')).toBe(big);
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('that the client leaves is cancelled at the provider, and recorded as far as it came', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 4 });
    const client = new AbortController();
    const answer = await gateway.post(PATH, stream, { signal: client.signal });
    const reader = (answer.body ?? failed()).getReader();
    const { value } = await reader.read();
    expect(value?.length).toBeGreaterThan(0);
    const asked = gateway.lastAsked();
    client.abort();
    expect(await asked.ended).toBe('aborted');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const types = events.map(({ type }) => type);
    const chunks = types.filter((type) => type === 'chunk.received').length;
    expect(chunks).toBeGreaterThan(0);
    expect(chunks).toBeLessThanOrEqual(4);
    expect(types).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      ...Array.from({ length: chunks }, () => 'chunk.received'),
      'client.disconnected',
      'usage.recorded',
    ]);
    expect(events.at(-2)?.data).toMatchObject({ chunks });
  });
});

async function eventsUntilOfRequest(requestId: string, last: string): Promise<string[]> {

  const events = await eventsUntil(gateway, `request_id=${requestId}`, ({ type }) => type === last);
  return events.map(({ type }) => type);
}

function failed(): never {
  throw new Error('the answer has no body');
}
