import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY, startTestGateway } from '../support/gateway.ts';
import { RawClient } from '../support/raw-client.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import {
  dataOf,
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
  return { register: (url) => ({ LLAMACPP_BASE_URL: url, VLLM_BASE_URL: scripted.url }) };
});
afterAll(() => scripted.close());

const PATH = '/v1/chat/completions';
const model = 'llamacpp/simulated-small';
const hello = { model, messages: user('Reply with exactly: hello') };

describe('a chat completion stream', () => {
  const stream = { ...hello, stream: true };

  it.each([
    ['chat', PATH, 'data: [DONE]'],
    ['Responses', '/v1/responses', 'event: response.completed'],
    ['Messages', '/v1/messages', 'event: message_stop'],
  ])('ends when its provider has ended the answer and keeps the connection open: %s', async (_name, path, last) => {
    const frames = [
      { choices: [{ index: 0, delta: { role: 'assistant', content: 'hi' }, finish_reason: null }] },
      { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    ];
    scripted.script(({ path: called }, response) => {
      if (called.endsWith('/responses')) return void response.writeHead(404).end();
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`${frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')}data: [DONE]\n\n`);
    });
    const body = { model: 'vllm/scripted', stream: true, max_tokens: 9, messages: user('hi'), input: 'hi' };
    const answer = await gateway.post(path, body, { signal: AbortSignal.timeout(10_000) });
    expect(await answer.text()).toContain(last);
    const isEnd = ({ type }: { readonly type: string }) => type === 'exchange.completed';
    await eventsUntil(gateway, `stream=exchange-${exchangeOf(answer)}`, isEnd);
  });

  it('has exactly the bytes that the provider sent, in any form', async () => {
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
    const answer = await gateway.post(PATH, {
      ...stream,
      model: 'vllm/scripted',
      stream_options: { include_usage: true },
    });
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    expect(await answer.text()).toBe(bytes.join(''));
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.filter(({ type }) => type === 'chunk.received').map(({ body }) => body)).toEqual(bytes);
    expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({
      inputTokens: 4,
      outputTokens: 5,
    });
  });

  it('has the headers that keep proxies from buffering', async () => {
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

  it('ends with one usage chunk when include_usage is set', async () => {
    const answer = await gateway.post(PATH, { ...stream, stream_options: { include_usage: true } });
    const text = await answer.text();
    const usage = dataOf(text).filter(({ choices }) => choices.length === 0);
    expect(usage).toHaveLength(1);
    expect(usage[0].usage).toMatchObject({ prompt_tokens: expect.any(Number), completion_tokens: expect.any(Number) });
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it.each([
    ['does not set include_usage', {}],
    ['declines it', { stream_options: { include_usage: false } }],
    ['sets another option', { stream_options: { x_other: 1 } }],
    ['sends null', { stream_options: null }],
  ])(
    'has no usage chunk when the client %s, though the usage is recorded',
    async (_what, options: { stream_options?: object | null }) => {
      const answer = await gateway.post(PATH, { ...stream, ...options });
      const text = await answer.text();
      expect(dataOf(text).filter(({ choices }) => choices.length === 0)).toEqual([]);
      expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
      expect(JSON.parse(gateway.lastProviderRequest().body).stream_options).toEqual({
        ...(options.stream_options ?? {}),
        include_usage: true,
      });
      const recorded = (await eventsOfExchange(gateway, exchangeOf(answer))).find(
        ({ type }) => type === 'usage.recorded',
      );
      expect(recorded?.data).toMatchObject({ source: 'provider', totalTokens: expect.any(Number) });
    },
  );

  it('has the same content as the answer without streaming', async () => {
    const requestBody = { model, messages: user('Tell me something.') };
    const whole = await json(await gateway.post(PATH, requestBody));
    const chunks = dataOf(await (await gateway.post(PATH, { ...requestBody, stream: true })).text());
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
    for (const chunk of answer?.chunks ?? []) expect(chunk.toString()).toMatch(/^(data|:)[\s\S]*(\n\n|\r\n\r\n)$/);
    const said = dataOf(answer?.body.toString() ?? '').map((chunk) => chunk.choices[0]?.delta.content ?? '');
    expect(said.join('').length).toBeGreaterThan(0);
    expect(eventsOf(answer?.body.toString() ?? '').at(-1)?.data).toBe('[DONE]');
  });

  it('is one write per event when the provider sends slowly', async () => {
    const frames = ['one', 'two', 'three', 'four'].map((content) => {
      return `event: x\ndata: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
    });
    const last = ['data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', 'data: [DONE]\n\n'];
    let goOn: () => void = () => {};
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const rest = [...frames];
      goOn = () => {
        const next = rest.shift();
        if (next !== undefined) response.write(next);
        else response.end(last.join(''));
      };
      goOn();
    });
    const request = httpRequest(`${gateway.url}${PATH}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${MASTER_KEY}` },
    });
    request.end(JSON.stringify({ ...stream, model: 'vllm/scripted' }));
    const [response] = await once(request, 'response');
    const pieces: string[] = [];
    for await (const piece of response) {
      pieces.push(String(piece));
      // The provider sends the next event only after this one has arrived.
      if (pieces.length <= frames.length) goOn();
    }
    expect(pieces.slice(0, frames.length)).toEqual(frames);
    expect(pieces.slice(frames.length).join('')).toBe(last.join(''));
  });

  it('passes on each event as soon as it arrives', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 3 });
    const answer = await gateway.post(PATH, stream);
    const reader = (answer.body ?? failed()).pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (eventsOf(text).length < 3) text += (await reader.read()).value;
    expect(gateway.lastProviderRequest().outcome).toBe('open');
    gateway.simulated.control.release();
    for (let more = await reader.read(); !more.done; more = await reader.read()) text += more.value;
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('reaches a client that pauses reading whole, without delaying other clients', async () => {
    const big = 'a long text. '.repeat(1_000_000);
    gateway.simulated.control.next({ text: big, tokensPerChunk: 4000 });
    const slow = httpRequest(`${gateway.url}${PATH}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${MASTER_KEY}` },
    });
    slow.end(JSON.stringify(stream));
    const [response] = await once(slow, 'response');
    for (let other = 0; other < 5; other++) expect((await gateway.post(PATH, hello)).status).toBe(200);
    const slowOne = gateway.simulated.requests.find(
      ({ body, outcome }) => outcome === 'open' && body.includes('"stream"'),
    );
    expect(slowOne?.outcome).toBe('open');
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    expect(
      dataOf(text)
        .map((chunk) => chunk.choices[0].delta.content ?? '')
        .join(''),
    ).toBe(big);
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('to a client that stops reading for too long is ended, and so is the provider call', async () => {
    const own = await startTestGateway({ env: { STREAM_STALL_TIMEOUT: '200ms' } });
    try {
      own.simulated.control.next({ text: 'a long text. '.repeat(1_000_000), tokensPerChunk: 4000 });
      const body = JSON.stringify(stream);
      const client = await RawClient.open(own.url);
      client.socket.pause();
      client.send(
        `POST ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\nx-request-id: stalled\r\n` +
          `content-length: ${body.length}\r\n\r\n${body}`,
      );
      const events = await eventsUntil(own, 'request_id=stalled', ({ type }) => type === 'client.disconnected');
      expect(events.filter(({ type }) => type === 'chunk.received').length).toBeGreaterThan(0);
      expect(await own.simulated.requests.at(-1)?.ended).toBe('aborted');
      client.close();
    } finally {
      await own.close();
    }
  });

  it('that the client abandons is cancelled at the provider, and recorded with its output so far', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 4 });
    const client = new AbortController();
    const answer = await gateway.post(PATH, stream, { signal: client.signal });
    const reader = (answer.body ?? failed()).getReader();
    const { value } = await reader.read();
    expect(value?.length).toBeGreaterThan(0);
    const providerRequest = gateway.lastProviderRequest();
    client.abort();
    expect(await providerRequest.ended).toBe('aborted');
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

function failed(): never {
  throw new Error('the answer has no body');
}
