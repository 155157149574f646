import { createHash } from 'node:crypto';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { rawAnswer } from '../support/raw-client.ts';
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
  withGateway,
} from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    register: (url) => ({
      LLAMACPP_BASE_URL: url,
      LLAMACPP_ODD_BASE_URL: scripted.url,
      LLAMACPP_ODD_API_KEY: 'sk-upstream',
      GROQ_BASE_URL: scripted.url,
      GROQ_API_KEY: 'sk-groq',
      BODY_SIZE_LIMIT: '8M',
    }),
  };
});
afterAll(() => scripted.close());

const ODD = '/p/llamacpp-odd';
const sha = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const allBytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

/** Answers every request with a 200 and these bytes. */
function says(body: string | Buffer, contentType = 'text/plain'): void {
  scripted.script((_request, response) => response.writeHead(200, { 'content-type': contentType }).end(body));
}

describe('a passthrough', () => {
  it('passes on everything that follows what looks like the end of a stream', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"part":1}\n\ndata: [DONE]\n\n');
      setTimeout(() => response.end('data: {"part":2}\n\n'), 1500);
    });
    const answer = await gateway.post(`${ODD}/v1/odd`, {});
    expect(await answer.text()).toBe('data: {"part":1}\n\ndata: [DONE]\n\ndata: {"part":2}\n\n');
  });

  it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    'accepts %s, with its path and query byte for byte',
    async (method) => {
      says('fine');
      const query = '?a=b%2Fc&d=%20+&e=é&&f'.replace('é', '%C3%A9');
      const answer = await gateway.fetch(`${ODD}/some%2Fpath/ü;x=1${query}`, { method });
      expect(answer.status).toBe(200);
      expect(await answer.text()).toBe('fine');
      expect(scripted.last()).toMatchObject({ method, path: `/some%2Fpath/%C3%BC;x=1${query}` });
    },
  );

  it('accepts HEAD, and returns the length that the body would have', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '1234', etag: '"x"' }).end();
    });
    const answer = await gateway.fetch(`${ODD}/file`, { method: 'HEAD' });
    expect(answer.status).toBe(200);
    expect(scripted.last().method).toBe('HEAD');
    expect(Object.fromEntries(answer.headers)).toMatchObject({ etag: '"x"', 'content-length': '1234' });
    expect(await answer.text()).toBe('');
  });

  it.each([
    ['chat/completions', '/v1/chat/completions'],
    ['v1/chat/completions', '/v1/chat/completions'],
    ['embeddings', '/v1/embeddings'],
    ['v1/embeddings', '/v1/embeddings'],
    ['responses', '/v1/responses'],
    ['completions', '/v1/completions'],
    ['health', '/health'],
    ['props', '/props'],
    ['tokenize', '/tokenize'],
    ['infill', '/infill'],
    ['rerank', '/rerank'],
    ['v1/rerank', '/v1/rerank'],
    ['slots/0?action=save', '/slots/0?action=save'],
  ])('routes %s of a llama.cpp server to %s', async (path, upstream) => {
    says('fine');
    expect((await gateway.fetch(`${ODD}/${path}`, { method: 'POST' })).status).toBe(200);
    expect(scripted.last().path).toBe(upstream);
  });

  it('reaches the real routes of a provider, by its type or its name', async () => {
    expect(await json(await gateway.fetch('/p/llamacpp/health'))).toEqual({ status: 'ok' });
    expect((await json(await gateway.fetch('/p/llamacpp/props'))).total_slots).toBe(1);
    expect((await json(await gateway.fetch('/p/llamacpp/v1/models'))).object).toBe('list');
    const tokens = await json(await gateway.post('/p/llamacpp/tokenize', { content: 'hello world' }));
    expect(tokens.tokens.length).toBeGreaterThan(0);
    const ranked = await json(
      await gateway.post('/p/llamacpp/rerank', { query: 'sea', documents: ['the sea', 'a car'] }),
    );
    expect(ranked.results[0].index).toBe(0);
  });

  it('passes on headers in both directions, except credentials and headers of the connection', async () => {
    scripted.script((_request, response) => {
      response.writeHead(201, {
        'content-type': 'text/plain',
        'openai-processing-ms': '3',
        'x-content-type-options': 'sniff',
        'set-cookie': 'session=secret',
        'cache-control': 'max-age=5',
        'x-ratelimit-remaining-requests': '7',
      });
      response.end('made');
    });
    const answer = await gateway.fetch(`${ODD}/x`, {
      method: 'POST',
      body: 'hello',
      headers: {
        'x-api-key': 'client-secret',
        cookie: 'session=client',
        'x-forwarded-for': '10.0.0.1',
        'x-forwarded-proto': 'https',
        forwarded: 'for=10.0.0.1',
        'accept-encoding': 'gzip, br',
        'x-gateway-user-path': '/team/ann',
        'x-request-id': 'pass-1',
        'anthropic-version': '2023-06-01',
        'x-stainless-lang': 'kept',
        'content-type': 'text/x-odd; charset=x',
        'user-agent': 'my-agent/1',
        'proxy-authorization': 'Basic x',
        'x-cache-control': 'no-store',
        'x-cache-type': 'exact',
        'x-cache-ttl': '5',
        'x-cache-semantic-threshold': '0.9',
      },
    });
    expect(answer.status).toBe(201);
    const { headers, body } = scripted.last();
    expect(headers).toMatchObject({
      authorization: 'Bearer sk-upstream',
      'x-stainless-lang': 'kept',
      'anthropic-version': '2023-06-01',
      'content-type': 'text/x-odd; charset=x',
      'x-request-id': 'pass-1',
      'content-length': '5',
    });
    expect(body.toString()).toBe('hello');
    for (const name of [
      'x-api-key',
      'cookie',
      'x-forwarded-for',
      'x-forwarded-proto',
      'forwarded',
      'x-gateway-user-path',
      'proxy-authorization',
      'x-cache-control',
      'x-cache-type',
      'x-cache-ttl',
      'x-cache-semantic-threshold',
    ]) {
      expect(headers[name]).toBeUndefined();
    }
    expect(headers['accept-encoding'] ?? 'identity').toBe('identity');
    expect(JSON.stringify(headers)).not.toContain(MASTER_KEY);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'openai-processing-ms': '3',
      'x-content-type-options': 'nosniff',
      'cache-control': 'max-age=5',
      'x-ratelimit-remaining-requests': '7',
      'x-request-id': 'pass-1',
      'x-exchange-id': expect.any(String),
    });
    expect(answer.headers.get('set-cookie')).toBeNull();
  });

  it('carries every possible byte, in both directions', async () => {
    scripted.script(({ body }, response) =>
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(body),
    );
    const answer = await gateway.fetch(`${ODD}/echo`, { method: 'POST', body: allBytes });
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(allBytes);
  });

  it('carries megabytes, announced or in chunks', async () => {
    scripted.script(({ body }, response) => {
      response.writeHead(200, { 'content-type': 'audio/wav', 'openai-got': `${body.length} ${sha(body)}` });
      response.end(body);
    });
    const big = Buffer.alloc(5 * 1024 * 1024, Buffer.from('some seed', 'utf8'));
    for (let at = 0; at < big.length; at += 256) allBytes.copy(big, at);
    const chunks = new ReadableStream({
      start(controller) {
        for (let at = 0; at < big.length; at += 100_000) controller.enqueue(big.subarray(at, at + 100_000));
        controller.close();
      },
    });
    for (const body of [big, chunks]) {
      const init = { method: 'POST', body, duplex: 'half' } as RequestInit;
      const answer = await gateway.fetch(`${ODD}/echo`, init);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('openai-got')).toBe(`${big.length} ${sha(big)}`);
      expect(answer.headers.get('content-type')).toBe('audio/wav');
      expect(sha(new Uint8Array(await answer.arrayBuffer()))).toBe(sha(big));
    }
  });

  it('refuses a body over the limit, announced or not, without calling the provider', async () => {
    says('fine');
    const big = Buffer.alloc(9 * 1024 * 1024);
    const announced = await gateway.fetch(`${ODD}/echo`, { method: 'POST', body: big });
    expect(await errorOf(announced, 413)).toMatchObject({ type: 'invalid_request_error' });
    const endless = new ReadableStream({ pull: (controller) => controller.enqueue(big.subarray(0, 1024 * 1024)) });
    const streamed = gateway.fetch(`${ODD}/echo`, { method: 'POST', body: endless, duplex: 'half' } as RequestInit);
    expect(await errorOf(await streamed, 413)).toMatchObject({ type: 'invalid_request_error' });
  });

  it('passes on an empty answer, a 204 and a 304 unchanged', async () => {
    for (const status of [200, 204, 304]) {
      scripted.script((_request, response) => response.writeHead(status, { etag: '"1"' }).end());
      const answer = await gateway.fetch(`${ODD}/x`);
      expect(answer.status).toBe(status);
      expect(answer.headers.get('etag')).toBe('"1"');
      expect(await answer.text()).toBe('');
    }
  });

  it('follows no redirect, but passes it on', async () => {
    for (const status of [301, 302, 307, 308]) {
      scripted.script((_request, response) =>
        response.writeHead(status, { location: 'http://127.0.0.1:1/elsewhere' }).end('moved'),
      );
      const answer = await gateway.fetch(`${ODD}/x`, { redirect: 'manual' });
      expect(answer.status).toBe(status);
      expect(answer.headers.get('location')).toBe('http://127.0.0.1:1/elsewhere');
    }
  });

  it('streams events as they arrive', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 2 });
    const body = {
      model: 'simulated-small',
      messages: user('hi'),
      stream: true,
      stream_options: { include_usage: true },
    };
    const answer = await gateway.post('/p/llamacpp/chat/completions', body);
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    while (eventsOf(text).length < 2) text += Buffer.from((await reader.read()).value ?? []).toString();
    expect(gateway.lastProviderRequest().outcome).toBe('open');
    gateway.simulated.control.release();
    for (let more = await reader.read(); !more.done; more = await reader.read())
      text += Buffer.from(more.value).toString();
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(dataOf(text).filter(({ choices }) => choices.length === 0)).toHaveLength(1);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(
      events
        .filter(({ type }) => type === 'chunk.received')
        .map((event) => event.body)
        .join(''),
    ).toBe(text);
  });

  it('streams other long answers as they arrive', async () => {
    let goOn: () => void = () => {};
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' });
      response.write('{"n":1}\n');
      response.write('{"n":2}\n');
      goOn = () => response.end('{"n":3}\n');
    });
    const answer = await gateway.fetch(`${ODD}/lines`);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toContain('{"n":1}');
    goOn();
    let rest = '';
    for (let more = await reader.read(); !more.done; more = await reader.read())
      rest += Buffer.from(more.value).toString();
    expect(rest).toMatch(/\{"n":3\}\n$/);
  });

  it('is cancelled at the provider when the client disconnects', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 2 });
    const client = new AbortController();
    const body = { model: 'simulated-small', messages: user('hi'), stream: true };
    const answer = await gateway.post('/p/llamacpp/chat/completions', body, { signal: client.signal });
    await (answer.body as ReadableStream<Uint8Array>).getReader().read();
    const providerRequest = gateway.lastProviderRequest();
    client.abort();
    expect(await providerRequest.ended).toBe('aborted');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.at(-1)?.type).toBe('client.disconnected');
  });

  it.each([
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [403, 'authentication_error'],
    [404, 'not_found_error'],
    [409, 'invalid_request_error'],
    [418, 'invalid_request_error'],
    [422, 'invalid_request_error'],
    [429, 'rate_limit_error'],
    [500, 'provider_error'],
    [503, 'provider_error'],
  ])("puts a provider's %i into the envelope", async (status, type) => {
    scripted.script((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' });
      response.end('{"error":{"message":"no luck","code":"unlucky","param":"x"}}');
    });
    const answer = await gateway.fetch(`${ODD}/x`, { method: 'POST' });
    expect(await errorOf(answer, status)).toEqual({
      type,
      code: 'unlucky',
      message: 'no luck',
      param: 'x',
      provider: 'llamacpp-odd',
    });
  });

  it('is retried only where that is safe', async () => {
    let calls = 0;
    scripted.script((_request, response) => {
      calls += 1;
      response.writeHead(calls < 3 ? 503 : 200, { 'content-type': 'text/plain' }).end('done');
    });
    const again = async (method: string, headers = {}) => {
      calls = 0;
      return { status: (await gateway.fetch(`${ODD}/x`, { method, headers })).status, calls };
    };
    for (const method of ['GET', 'OPTIONS', 'PUT']) expect(await again(method)).toEqual({ status: 200, calls: 3 });
    for (const method of ['POST', 'PATCH', 'DELETE']) expect(await again(method)).toEqual({ status: 503, calls: 1 });
    expect(await again('POST', { 'idempotency-key': 'k' })).toEqual({ status: 200, calls: 3 });
  });

  it.each([
    '../secret',
    'a/../../secret',
    '..%2fsecret',
    'a/%2e%2e/secret',
    'a/.%2E/x',
    '..\\secret',
    'a/..%5c..%5cx',
    './x',
    '..',
  ])('refuses the path %s', async (path) => {
    says('fine');
    const answer = await rawAnswer(
      gateway.url,
      `GET ${ODD}/${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\n\r\n`,
    );
    expect(answer?.status).toBe(400);
    expect(JSON.parse(answer?.body.toString() ?? '').error.type).toBe('invalid_request_error');
  });

  it('goes only to the provider, whatever the path looks like', async () => {
    says('fine');
    for (const path of [
      '//evil.example/x',
      '/http://evil.example/x',
      '/@evil.example',
      '/%0d%0ax-evil:%201',
      '/a%00b',
    ]) {
      const answer = await rawAnswer(
        gateway.url,
        `GET ${ODD}${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\n\r\n`,
      );
      expect([200, 400]).toContain(answer?.status);
      if (answer?.status === 200) expect(scripted.last().path).toBe(path);
    }
  });

  it('requires an existing provider, of a type that is enabled', async () => {
    expect(await errorOf(await gateway.fetch('/p/nobody/x'), 400)).toMatchObject({
      type: 'invalid_request_error',
      code: 'unknown_provider',
    });
    expect(await errorOf(await gateway.fetch('/p/groq/x'), 400)).toMatchObject({ type: 'invalid_request_error' });
  });

  it('is recorded like any other request', async () => {
    scripted.script(({ body }, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(`{"got":${body.length},"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`);
    });
    const answer = await gateway.fetch(`${ODD}/x?api_key=sk-query&b=1`, {
      method: 'POST',
      body: allBytes,
      headers: { cookie: 'c=1', 'x-gateway-user-path': '/team/ann' },
    });
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'usage.recorded');
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(events.at(-1)?.data).toMatchObject({ provider: 'llamacpp-odd', inputTokens: 3, outputTokens: 4 });
    const [received, started, chunk] = events;
    expect(received).toMatchObject({ userPath: '/team/ann', body_base64: allBytes.toString('base64') });
    expect(received?.data).toMatchObject({
      dialect: 'passthrough',
      method: 'POST',
      path: `${ODD}/x?api_key=[REDACTED]&b=1`,
      headers: { authorization: '[REDACTED]', cookie: '[REDACTED]' },
      capture: 'full',
    });
    expect(started?.data).toMatchObject({ provider: 'llamacpp-odd', dialect: 'passthrough' });
    expect(chunk?.body).toBe(await answer.text());
  });

  const usage = '"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}';
  const spent = { provider: 'llamacpp-odd', inputTokens: 3, outputTokens: 4, endpoint: `${ODD}/x` };
  const typesOf = (events: readonly { type: string }[]) => events.map(({ type }) => type);

  it('reads a short JSON answer whole, however many pieces it arrives in, and records its cost', async () => {
    const text = `{"answer":"${'x'.repeat(200_000)}",${usage}}`;
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length });
      response.write(text.slice(0, 70_000));
      setImmediate(() => response.end(text.slice(70_000)));
    });
    const answer = await gateway.fetch(`${ODD}/x`);
    expect(answer.headers.get('content-length')).toBe(String(text.length));
    expect(await answer.text()).toBe(text);
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'usage.recorded');
    expect(typesOf(events)).toEqual([
      'request.received',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(events.at(-1)?.data).toMatchObject(spent);
  });

  it('records the cost of a JSON answer of unknown length', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
      response.write('{"answer":"first",');
      setImmediate(() => response.end(`${usage}}`));
    });
    const answer = await gateway.fetch(`${ODD}/x`);
    expect(await answer.text()).toBe(`{"answer":"first",${usage}}`);
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'usage.recorded');
    expect(events.at(-1)?.data).toMatchObject(spent);
  });

  it('records the usage seen so far when a stream breaks', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`data: {"delta":"a",${usage}}\n\n`, () => setImmediate(() => response.destroy()));
    });
    const answer = await gateway.fetch(`${ODD}/x`, { method: 'POST' });
    expect(dataOf(await answer.text()).at(-1)).toMatchObject({ error: { code: 'stream_incomplete' } });
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'usage.recorded');
    expect(typesOf(events).slice(-2)).toEqual(['exchange.failed', 'usage.recorded']);
    expect(events.at(-1)?.data).toMatchObject(spent);
  });

  it('records the usage seen so far when the client disconnects', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`data: {"delta":"a",${usage}}\n\n`);
    });
    const client = new AbortController();
    const answer = await gateway.fetch(`${ODD}/x`, { method: 'POST', signal: client.signal });
    await (answer.body as ReadableStream<Uint8Array>).getReader().read();
    client.abort();
    const stream = `stream=exchange-${exchangeOf(answer)}`;
    const events = await eventsUntil(gateway, stream, ({ type }) => type === 'usage.recorded');
    expect(typesOf(events).slice(-2)).toEqual(['client.disconnected', 'usage.recorded']);
    expect(events.at(-1)?.data).toMatchObject(spent);
  });

  it('breaks the connection when a file is incomplete', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      response.write(Buffer.alloc(70_000), () => setImmediate(() => response.destroy()));
    });
    const answer = await gateway.fetch(`${ODD}/file`, { method: 'POST' });
    if (answer.status === 200) await expect(answer.arrayBuffer()).rejects.toThrow();
    else await errorOf(answer, 502);
  });
});
