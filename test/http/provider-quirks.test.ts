import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { countOf } from '../support/seed.ts';
import { errorOf, eventsOf, eventsOfExchange, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    simulated: false,
    env: {
      LLAMACPP_BASE_URL: scripted.url,
      RETRY_MAX_RETRIES: '0',
      HTTP_TIMEOUT: '600ms',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(() => scripted.close());

const PATH = '/v1/chat/completions';
const requestBody = { model: 'llamacpp/scripted', messages: user('hi') };
const stream = { ...requestBody, stream: true };
const completion =
  '{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hé"},"finish_reason":"stop"}]}';
const chunk = (delta: object, more: object = {}) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, ...more }] })}\n\n`;
const DONE = 'data: [DONE]\n\n';
const events = (...all: string[]) => Buffer.from(all.join(''));

function says(
  body: string | Buffer,
  headers: Record<string, string> = { 'content-type': 'application/json' },
  status = 200,
): void {
  scripted.script((_request, response) => response.writeHead(status, headers).end(body));
}

describe('a provider with odd habits', () => {
  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('may compress its answer with %s against accept-encoding', async (encoding, compress) => {
    says(compress(completion), { 'content-type': 'application/json', 'content-encoding': encoding });
    const answer = await gateway.post(PATH, requestBody);
    expect(answer.headers.get('content-encoding')).toBeNull();
    expect(await answer.text()).toBe(completion);

    const passed = await gateway.post('/p/llamacpp/anything', {});
    expect(await passed.text()).toBe(completion);

    const bytes = events(chunk({ content: 'hi' }), chunk({}, { finish_reason: 'stop' }), DONE);
    says(compress(bytes), { 'content-type': 'text/event-stream', 'content-encoding': encoding });
    expect(await (await gateway.post(PATH, stream)).text()).toBe(bytes.toString());

    says(
      compress('{"error":{"message":"no luck"}}'),
      { 'content-type': 'application/json', 'content-encoding': encoding },
      400,
    );
    expect(await errorOf(await gateway.post(PATH, requestBody), 400)).toMatchObject({ message: 'no luck' });
  });

  it('may declare a compression that it did not apply', async () => {
    says(completion, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
    expect(await errorOf(await gateway.post(PATH, requestBody), 502)).toMatchObject({
      type: 'provider_error',
      provider: 'llamacpp',
    });
  });

  it('may write its content types in capitals, and with parameters', async () => {
    const bytes = events(chunk({ content: 'hi' }), chunk({}, { finish_reason: 'stop' }), DONE);
    says(bytes, { 'content-type': 'Text/Event-Stream; Charset=UTF-8' });
    const answer = await gateway.post(PATH, stream);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(bytes.toString());
  });

  it('may answer JSON under any content type, or none', async () => {
    for (const headers of [{}, { 'content-type': 'text/plain' }, { 'content-type': 'application/octet-stream' }]) {
      says(` \n${completion}\n\n`, headers as Record<string, string>);
      expect((await json(await gateway.post(PATH, requestBody))).id).toBe('x');
    }
  });

  it('may report its usage with the finish reason, in every chunk, or before the end', async () => {
    const usage = (total: number) => ({ prompt_tokens: 1, completion_tokens: total - 1, total_tokens: total });
    for (const chunks of [
      [
        chunk({ content: 'hi' }),
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: usage(7) })}\n\n`,
      ],
      [5, 6, 7].map(
        (total) =>
          `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x' }, finish_reason: total === 7 ? 'stop' : null }], usage: usage(total) })}\n\n`,
      ),
      [
        `data: ${JSON.stringify({ choices: [], usage: usage(7) })}\n\n`,
        chunk({ content: 'hi' }),
        chunk({}, { finish_reason: 'stop' }),
      ],
    ]) {
      says(events(...chunks, DONE), { 'content-type': 'text/event-stream' });
      const answer = await gateway.post(PATH, { ...stream, stream_options: { include_usage: true } });
      expect(await answer.text()).toBe([...chunks, DONE].join(''));
      const received = await eventsOfExchange(gateway, exchangeOf(answer));
      expect(received.at(-1)?.data).toMatchObject({ source: 'provider', totalTokens: 7 });
    }
  });

  it('may begin a stream with a chunk of no choices, which is passed on', async () => {
    const filter = 'data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}\n\n';
    const bytes = [filter, chunk({ content: 'hi' }), chunk({}, { finish_reason: 'stop' }), DONE];
    says(events(...bytes), { 'content-type': 'text/event-stream' });
    expect(await (await gateway.post(PATH, stream)).text()).toBe(bytes.join(''));
  });

  it('may keep the connection open with comments before its first output', async () => {
    const bytes = [
      ': OPENROUTER PROCESSING\n\n',
      ': still here\n\n',
      chunk({ content: 'hi' }),
      chunk({}, { finish_reason: 'stop' }),
      DONE,
    ];
    scripted.script(({ path }, response) => {
      const status = path === '/v1/responses' ? 404 : 200;
      response.writeHead(status, { 'content-type': 'text/event-stream' }).end(events(...bytes));
    });
    expect(await (await gateway.post(PATH, stream)).text()).toBe(bytes.join(''));
    const response = await gateway.post('/v1/responses', { model: 'llamacpp/scripted', input: 'hi', stream: true });
    expect(eventsOf(await response.text()).map(({ event }) => event)).toContain('response.completed');
  });

  it('may omit the blank line at the end of its stream', async () => {
    says(events(chunk({ content: 'hi' }), chunk({}, { finish_reason: 'stop' }), 'data: [DONE]'), {
      'content-type': 'text/event-stream',
    });
    const text = await (await gateway.post(PATH, stream)).text();
    expect(text).toMatch(/data: \[DONE\]\s*$/);
    expect(text.match(/\[DONE\]/g)).toHaveLength(1);
  });

  it('may send an event over the limit, which ends the stream with an error', async () => {
    says(events(chunk({ content: 'hi' }), `data: ${'x'.repeat(17 * 1024 * 1024)}\n\n`), {
      'content-type': 'text/event-stream',
    });
    const text = await (await gateway.post(PATH, stream)).text();
    const last = JSON.parse(eventsOf(text).at(-1)?.data ?? '');
    expect(last.error).toMatchObject({ type: 'provider_error', provider: 'llamacpp' });
  });

  it('may send an endless answer, which is cut off', async () => {
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      const drip = setInterval(() => response.write(' '), 20);
      response.on('close', () => clearInterval(drip));
    });
    const answer = await gateway.post(PATH, requestBody, { signal: AbortSignal.timeout(5000) });
    expect(await errorOf(answer, 504)).toMatchObject({
      type: 'provider_error',
      provider: 'llamacpp',
    });
  });

  it('may write its events in any form, cut anywhere: client and log get the same events', async () => {
    const line = fc.oneof(
      fc.constantFrom(': comment', 'event: x', 'id: 1', 'retry: 5', 'data', 'data:', 'nonsense: é'),
      fc
        .string({ unit: 'grapheme', maxLength: 12 })
        .map((text) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}`),
    );
    const newline = fc.constantFrom('\n', '\r\n', '\r');
    const frame = fc
      .tuple(fc.array(line, { minLength: 1, maxLength: 3 }), newline)
      .map(([lines, end]) => lines.join(end) + end + end);
    const cuts = fc.array(fc.nat({ max: 400 }), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: 5 }), cuts, async (frames, places) => {
        const bytes = events(...frames, chunk({}, { finish_reason: 'stop' }), DONE);
        const borders = [0, ...places.filter((at) => at < bytes.length).sort((a, b) => a - b), bytes.length];
        scripted.script(async (_request, response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          for (const [at, from] of borders.slice(0, -1).entries()) {
            response.write(bytes.subarray(from, borders[at + 1]));
            await new Promise(setImmediate);
          }
          response.end();
        });
        const answer = await gateway.post(PATH, { ...stream, stream_options: { include_usage: true } });
        expect(await answer.text()).toBe(bytes.toString());
        const received = await eventsOfExchange(gateway, exchangeOf(answer));
        expect(
          received
            .filter(({ type }) => type === 'chunk.received')
            .map(({ body }) => body)
            .join(''),
        ).toBe(bytes.toString());
      }),
      { numRuns: countOf(10, 40) },
    );
  });
});
