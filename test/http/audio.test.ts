import { createHash } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { rawAnswer } from '../support/raw-client.ts';
import { type ScriptedProvider, type ScriptedRequest, startScriptedProvider } from '../support/scripted-provider.ts';
import {
  dataOf,
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  withGateway,
} from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    register: () => ({
      OPENAI_BASE_URL: scripted.url,
      OPENAI_API_KEY: 'sk-upstream',
      DEEPSEEK_BASE_URL: scripted.url,
      DEEPSEEK_API_KEY: 'sk-deep',
    }),
    env: { BODY_SIZE_LIMIT: '2M', RETRY_INITIAL_BACKOFF: '1ms' },
  };
});
const keeping = withGateway(async () => ({
  register: () => ({ OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk-upstream' }),
  env: { LOGGING_LOG_AUDIO_BODIES: 'true' },
}));
afterAll(() => scripted.close());

const model = 'openai/scripted';
const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');
const audio = Buffer.from(Array.from({ length: 150_000 }, (_, at) => (at * 7) % 256));
const SPEECH = '/v1/audio/speech';
const requestBody = { model, input: 'Hello', voice: 'alloy' };

function speaks(bytes = audio, contentType = 'audio/mpeg'): void {
  scripted.script((_request, response) => response.writeHead(200, { 'content-type': contentType }).end(bytes));
}

/** A request's form, as the provider reads it. */
async function formIn({ headers, body }: ScriptedRequest): Promise<[string, string | Buffer, string?][]> {
  const type = headers['content-type'] ?? '';
  const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
  const parts: [string, string | Buffer, string?][] = [];
  for (const [name, value] of form) {
    if (typeof value === 'string') parts.push([name, value]);
    else parts.push([name, Buffer.from(await value.arrayBuffer()), `${value.name} ${value.type}`]);
  }
  return parts;
}

function formOf(...parts: [string, string | Blob, string?][]): FormData {
  const form = new FormData();
  for (const [name, value, filename] of parts) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, filename);
  }
  return form;
}

const wav = new Blob([audio], { type: 'audio/wav' });

describe('POST /v1/audio/speech', () => {
  it('returns every byte of the provider, whatever its type', async () => {
    for (const type of ['audio/mpeg', 'audio/wav', 'application/octet-stream']) {
      speaks(audio, type);
      const answer = await gateway.post(SPEECH, requestBody);
      expect(answer.headers.get('content-type')).toBe(type);
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
      expect(sha256(new Uint8Array(await answer.arrayBuffer()))).toBe(sha256(audio));
    }
  });

  it('gives a page that a provider sends no rights in the origin of the gateway', async () => {
    speaks(Buffer.from('<script>'), 'text/html');
    const answer = await gateway.fetch(SPEECH, { json: requestBody });
    expect([answer.status, answer.headers.get('content-security-policy')]).toEqual([200, 'sandbox']);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  });

  it('starts its answer before the provider has sent everything', async () => {
    let goOn: () => void = () => {};
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'audio/pcm' });
      response.write(audio.subarray(0, 1000));
      response.write(audio.subarray(1000, 2000), () => setImmediate(() => response.write(audio.subarray(2000, 3000))));
      goOn = () => response.end(audio.subarray(3000));
    });
    const answer = await gateway.post(SPEECH, requestBody);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const got: Uint8Array[] = [(await reader.read()).value ?? new Uint8Array()];
    goOn();
    for (let more = await reader.read(); !more.done; more = await reader.read()) got.push(more.value);
    expect(sha256(Buffer.concat(got))).toBe(sha256(audio));
  });

  it('is recorded by its digest and size, and with its bytes only where that is configured', async () => {
    speaks();
    const answer = await gateway.post(SPEECH, requestBody);
    await answer.arrayBuffer();
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const chunks = events.filter(({ type }) => type === 'chunk.received');
    expect(chunks.length).toBeGreaterThan(0);
    expect(chunks.every(({ body, body_base64 }) => body === undefined && body_base64 === undefined)).toBe(true);
    const received = events.find(({ type }) => type === 'answer.received');
    expect(received?.data).toEqual({
      attempt: 1,
      contentType: 'audio/mpeg',
      bytes: audio.length,
      sha256: sha256(audio),
    });
    expect(events.findIndex(({ type }) => type === 'answer.received')).toBeLessThan(
      events.findIndex(({ type }) => type === 'exchange.completed'),
    );

    const kept = await keeping.post(SPEECH, requestBody);
    await kept.arrayBuffer();
    const all = await eventsOfExchange(keeping, exchangeOf(kept));
    const bytes = all
      .filter(({ type }) => type === 'chunk.received')
      .map(({ body = '', body_base64 }) =>
        Buffer.from(body_base64 ?? body, body_base64 === undefined ? 'utf8' : 'base64'),
      );
    expect(sha256(Buffer.concat(bytes))).toBe(sha256(audio));
  });

  it('streams events that contain audio, and records their cost', async () => {
    const frames = [
      'data: {"type":"speech.audio.delta","audio":"AAAA"}\n\n',
      'data: {"type":"speech.audio.done","usage":{"input_tokens":3,"output_tokens":9,"total_tokens":12}}\n\n',
    ];
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(frames.join(''));
    });
    const answer = await gateway.post(SPEECH, { ...requestBody, stream_format: 'sse' });
    expect(await answer.text()).toBe(frames.join(''));
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.at(-1)?.data).toMatchObject({ inputTokens: 3, outputTokens: 9 });
    expect(events.find(({ type }) => type === 'answer.received')?.data).toMatchObject({
      contentType: 'text/event-stream',
      sha256: sha256(Buffer.from(frames.join(''))),
    });
  });

  it('breaks the connection when the provider breaks off', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'audio/mpeg' });
      response.write(audio, () => setImmediate(() => response.destroy()));
    });
    const answer = await gateway.post(SPEECH, requestBody);
    await expect(answer.arrayBuffer()).rejects.toThrow();
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({ reason: 'stream_broken' });
    expect(events.some(({ type }) => type === 'answer.received')).toBe(false);
  });

  it('is cancelled at the provider when the client disconnects', async () => {
    const { promise: left, resolve } = Promise.withResolvers<void>();
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'audio/mpeg' });
      response.write(audio);
      response.on('close', resolve);
    });
    const client = new AbortController();
    const answer = await gateway.post(SPEECH, requestBody, { signal: client.signal });
    await (answer.body as ReadableStream<Uint8Array>).getReader().read();
    client.abort();
    await left;
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.some(({ type }) => type === 'client.disconnected')).toBe(true);
  });
});

describe.each(['/v1/audio/transcriptions', '/v1/audio/translations'])('POST %s', (path) => {
  const send = (form: FormData, init: RequestInit = {}) => gateway.fetch(path, { method: 'POST', body: form, ...init });
  const hears = () =>
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"text":"hello","usage":{"input_tokens":5,"output_tokens":1,"total_tokens":6}}');
    });

  it.each([
    ['in front of its fields', ['file', 'model', 'provider', 'language']],
    ['behind its fields', ['model', 'provider', 'language', 'file']],
    ['between its fields', ['model', 'file', 'language']],
  ])('passes on a form with the file %s, with the provider’s own name for the model', async (_where, order) => {
    hears();
    const values: Record<string, string | Blob> = { model, provider: 'openai', language: 'dé\r\n"x"', file: wav };
    const answer = await send(
      formOf(...order.map((name): [string, string | Blob, string?] => [name, values[name] ?? '', 'a "b".wav'])),
    );
    expect((await json(answer)).text).toBe('hello');
    const request = scripted.last();
    expect([request.method, request.path]).toEqual(['POST', path]);
    expect(request.headers.authorization).toBe('Bearer sk-upstream');
    const form = await formIn(request);
    expect(form.map(([name]) => name)).toEqual(order.filter((name) => name !== 'provider'));
    for (const [name, value, file] of form) {
      if (name === 'model') expect(value).toBe('scripted');
      if (name === 'language') expect(value).toBe('dé\r\n"x"');
      if (name !== 'file') continue;
      expect(sha256(Buffer.from(value))).toBe(sha256(audio));
      expect(file).toMatch(/^a .*b.*\.wav audio\/wav$/);
    }
  });

  it('is recorded: text as it is, the file by its digest and size', async () => {
    hears();
    const answer = await send(formOf(['model', model], ['prompt', 'names: Ann'], ['file', wav, 'a.wav']));
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'request.part_received',
      'request.part_received',
      'request.part_received',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(events[0]?.data).toMatchObject({ dialect: 'forward', model, stream: false });
    expect(events.filter(({ type }) => type === 'request.part_received').map(({ data }) => data)).toEqual([
      { name: 'model', bytes: model.length, value: model },
      { name: 'prompt', bytes: 10, value: 'names: Ann' },
      { name: 'file', filename: 'a.wav', contentType: 'audio/wav', bytes: audio.length, sha256: sha256(audio) },
    ]);
    expect(events.at(-1)?.data).toMatchObject({ endpoint: path, inputTokens: 5, outputTokens: 1 });
    expect(await answer.text()).toBe(events.find(({ type }) => type === 'chunk.received')?.body);
  });

  it('records the bytes of the file where that is configured', async () => {
    hears();
    const form = formOf(['file', wav, 'a.wav'], ['model', model]);
    const answer = await keeping.fetch(path, { method: 'POST', body: form });
    const events = await eventsOfExchange(keeping, exchangeOf(answer));
    const pieces = events.filter(({ type }) => type === 'request.body_received');
    expect(pieces.map(({ data }) => data.index)).toEqual(pieces.map((_, index) => index));
    const bytes = pieces.map(({ body = '', body_base64 }) =>
      Buffer.from(body_base64 ?? body, body_base64 === undefined ? 'utf8' : 'base64'),
    );
    expect(sha256(Buffer.concat(bytes))).toBe(sha256(audio));
    // The whole form was received before the provider was called.
    expect(events.findIndex(({ type }) => type === 'attempt.started')).toBeGreaterThan(
      events.findLastIndex(({ type }) => type === 'request.part_received'),
    );
  });

  it('streams the transcript as events', async () => {
    const frames = [
      'data: {"type":"transcript.text.delta","delta":"he"}\n\n',
      'data: {"type":"transcript.text.done"}\n\n',
    ];
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(frames.join(''));
    });
    const answer = await send(formOf(['model', model], ['stream', 'true'], ['file', wav, 'a.wav']));
    expect(dataOf(await answer.text())).toHaveLength(2);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events[0]?.data.stream).toBe(true);
    expect(events.filter(({ type }) => type === 'chunk.received').map(({ body }) => body)).toEqual(frames);
  });

  it('reaches the provider while the client is still sending', async () => {
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    hears();
    const boundary = 'xyz';
    const head = `--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\n${model}\r\n`;
    const file = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`;
    const status = new Promise<number | undefined>((done, failed) => {
      const request = httpRequest(`${gateway.url}${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${MASTER_KEY}`,
          'content-type': `multipart/form-data; boundary=${boundary}`,
          'x-request-id': `slow${path}`,
        },
      });
      request.on('response', (response) => done(response.resume().statusCode));
      request.on('error', failed);
      request.write(head + file);
      request.write(audio);
      void begun.then(() => request.end(`\r\n--${boundary}--\r\n`));
    });
    await eventsUntil(gateway, `request_id=slow${path}`, ({ type }) => type === 'attempt.started');
    resolve();
    expect(await status).toBe(200);
    expect((await formIn(scripted.last())).map(([name]) => name)).toEqual(['model', 'file']);
  });

  it('is retried after a 503 only when the whole form was buffered', async () => {
    let calls = 0;
    scripted.script((_request, response) => {
      calls += 1;
      response.writeHead(calls === 1 ? 503 : 200, { 'content-type': 'application/json' }).end('{"text":"hello"}');
    });
    expect((await send(formOf(['file', wav, 'a.wav'], ['model', model]))).status).toBe(200);
    expect(calls).toBe(2);
    calls = 0;
    expect((await send(formOf(['model', model], ['file', wav, 'a.wav']))).status).toBe(503);
    expect(calls).toBe(1);
  });

  it('refuses malformed forms without calling a provider', async () => {
    scripted.script(() => expect.unreachable('the provider was called'));
    const type = { 'content-type': 'multipart/form-data; boundary=x' };
    const part = '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n';
    for (const [init, facts] of [
      [{ body: formOf(['file', wav, 'a.wav']) }, { code: 'missing_required_parameter', param: 'model' }],
      [{ body: formOf(['model', ''], ['file', wav, 'a.wav']) }, { code: 'missing_required_parameter', param: 'model' }],
      [{ body: formOf(['model', model], ['provider', 'nobody']) }, { code: 'unknown_provider', param: 'provider' }],
      [{ body: '{"model":"x"}', headers: { 'content-type': 'application/json' } }, { code: 'form_expected' }],
      [{ body: part, headers: type }, { code: 'invalid_form' }],
      [{ body: 'nothing', headers: type }, { code: 'invalid_form' }],
      [{ headers: type }, { code: 'invalid_form' }],
      [{ body: part, headers: { 'content-type': 'multipart/form-data' } }, { code: 'invalid_form' }],
    ] as const) {
      const answer = await gateway.fetch(path, { method: 'POST', ...init });
      expect(await errorOf(answer, 400)).toMatchObject(facts);
    }
  });

  it('refuses a provider that comes too late in the form, unless it repeats the one in use', async () => {
    hears();
    const late = await send(formOf(['model', model], ['file', wav, 'a.wav'], ['provider', 'deepseek']));
    expect(await errorOf(late, 400)).toMatchObject({ code: 'late_field', param: 'provider' });
    const events = await eventsOfExchange(gateway, exchangeOf(late));
    expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({ reason: 'upload_failed' });
    const fine = await send(formOf(['model', model], ['file', wav, 'a.wav'], ['provider', 'openai']));
    expect(fine.status).toBe(200);
    expect((await formIn(scripted.last())).map(([name]) => name)).toEqual(['model', 'file']);
  });

  it('refuses a form over the limit, wherever the file stands in it', async () => {
    hears();
    const big = new Blob([Buffer.alloc(3 * 1024 * 1024)]);
    const [first, last] = [formOf(['file', big, 'a'], ['model', model]), formOf(['model', model], ['file', big, 'a'])];
    for (const form of [first, last]) expect((await errorOf(await send(form), 413)).code).toBe('request_too_large');
  });

  it('refuses one that is announced to be too large without reading it', async () => {
    const answer = await rawAnswer(
      gateway.url,
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\n` +
        'content-type: multipart/form-data; boundary=x\r\ncontent-length: 3000000\r\n\r\n',
    );
    expect(answer?.status).toBe(413);
  });

  it('is a 501 where the provider lacks the endpoint', async () => {
    hears();
    const answer = await send(formOf(['model', 'deepseek/scripted'], ['file', wav, 'a.wav']));
    expect(answer.headers.get('x-should-retry')).toBe('false');
    expect(await errorOf(answer, 501)).toMatchObject({ code: 'unsupported_operation' });
  });

  it('ends its exchange when the client breaks off in the middle of its file', async () => {
    hears();
    const id = `gone${path}`;
    const request = httpRequest(`${gateway.url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${MASTER_KEY}`,
        'content-type': 'multipart/form-data; boundary=x',
        'x-request-id': id,
      },
    });
    request.on('error', () => {});
    request.write(`--x\r\ncontent-disposition: form-data; name="model"\r\n\r\n${model}\r\n`);
    request.write('--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n');
    request.write(audio);
    await eventsUntil(gateway, `request_id=${id}`, ({ type }) => type === 'attempt.started');
    request.destroy();
    const events = await eventsUntil(gateway, `request_id=${id}`, ({ type }) => type === 'client.disconnected');
    expect(events.at(-1)?.type).toBe('client.disconnected');
    expect((await send(formOf(['model', model], ['file', wav, 'a.wav']))).status).toBe(200);
  });
});
