import { afterAll, describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { refusalHeaders, toRefusal } from '../../src/http/errors.ts';
import { startTestGateway, type TestGatewayOptions } from '../support/gateway.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { pairsOf, someOf } from '../support/seed.ts';
import {
  dataOf,
  errorOf,
  eventsOf,
  eventsOfExchange,
  exchangeOf,
  expectEnvelope,
  json,
  user,
  withGateway,
} from '../support/with-gateway.ts';

// In a form that no pattern would take for a key.
const API_KEY = 'correct.horse.battery';
const within = (timeout: string): TestGatewayOptions => ({
  simulated: { responses: 'absent', apiKey: API_KEY },
  env: {
    LLAMACPP_API_KEY: API_KEY,
    LLAMACPP_DEAD_BASE_URL: 'http://127.0.0.1:1/v1',
    LLAMACPP_DEAD_MODELS: 'some-model',
    HTTP_RESPONSE_HEADER_TIMEOUT: timeout,
    HTTP_TIMEOUT: timeout,
    HTTP_STREAM_IDLE_TIMEOUT: timeout,
    RETRY_MAX_RETRIES: '2',
    RETRY_INITIAL_BACKOFF: '2ms',
    CIRCUIT_BREAKER_ENABLED: 'false',
  },
});
const gateway = withGateway(within('1500ms'), 1);
/** For answers that come too late, however slow the machine is. */
const impatient = withGateway(within('100ms'), 1);

const model = 'llamacpp/simulated-small';
const chat = { model, messages: user('Tell me something.') };
const surfaces: readonly [string, string, object][] = [
  ['a chat completion', '/v1/chat/completions', chat],
  ['a chat completion stream', '/v1/chat/completions', { ...chat, stream: true }],
  ['a response', '/v1/responses', { model, input: 'hi' }],
  ['a response stream', '/v1/responses', { model, input: 'hi', stream: true }],
  ['embeddings', '/v1/embeddings', { model, input: 'hi' }],
  ['a passthrough', '/p/llamacpp/chat/completions', { ...chat, model: 'simulated-small' }],
];
const ask = (body: object = chat) => gateway.post('/v1/chat/completions', body);
const posts = () => gateway.simulated.requests.filter(({ method }) => method === 'POST').length;

/** The answer to a request, and how often the provider was called for it. */
async function counted(body: object = chat, path = '/v1/chat/completions') {
  const before = posts();
  const answer = await gateway.post(path, body);
  return { answer, calls: () => posts() - before };
}

/** Every kind of request that a provider refuses in this way; `/v1/responses` itself is always a 404 here. */
function always(fault: Fault, at = gateway): void {
  for (const path of ['/v1/chat/completions', '/v1/embeddings']) at.simulated.control.always(fault, { path });
}

const statuses = [
  [400, 'invalid_request_error'],
  [402, 'invalid_request_error'],
  [403, 'authentication_error'],
  [404, 'not_found_error'],
  [409, 'invalid_request_error'],
  [413, 'invalid_request_error'],
  [422, 'invalid_request_error'],
  [429, 'rate_limit_error'],
  [500, 'provider_error'],
  [501, 'provider_error'],
  [502, 'provider_error'],
  [503, 'provider_error'],
  [504, 'provider_error'],
  [529, 'provider_error'],
] as const;
const refused = someOf(pairsOf(statuses, surfaces), ([one, surface]) => [one, surface], 2).map(
  ([[status, type], [surface, path, body]]) => ({ status, type, surface, path, body }),
);
it.each(refused)(
  "a provider's $status for $surface keeps its status and is a $type",
  async ({ status, type, path, body }) => {
    always({ status, message: 'no luck today', code: 'unlucky' });
    const answer = await gateway.post(path, body);
    expect(answer.headers.get('x-exchange-id')).toMatch(/./);
    expect(await errorOf(answer, status)).toEqual({
      type,
      code: 'unlucky',
      message: 'no luck today',
      param: null,
      provider: 'llamacpp',
    });
  },
);

describe.each(surfaces)("a provider's refusal of %s", (_surface, path, body) => {
  it.each([
    ['a number as its code', { status: 400, body: 'numeric-code', message: 'no luck' }, 400, /^no luck$/],
    ['a page of HTML', { status: 502, body: 'html' }, 502, /^[^<>]+$/],
    ['plain text', { status: 503, body: 'text', message: 'try later' }, 503, /try later/],
    ['an empty body', { status: 500, body: 'empty' }, 500, /llamacpp.*500/],
  ] as [string, Fault, number, RegExp][])(
    'in the form of %s is returned with a message',
    async (_form, fault, status, message) => {
      always(fault);
      const error = await errorOf(await gateway.post(path, body), status);
      expect(error).toMatchObject({ code: null, provider: 'llamacpp', message: expect.stringMatching(message) });
    },
  );

  it("does not contain the provider's API key", async () => {
    always({ status: 401, message: `Incorrect API key provided: ${API_KEY}.` });
    const { message } = await errorOf(await gateway.post(path, body), path.startsWith('/p/') ? 401 : 502);
    expect(message).toContain('Incorrect API key');
    expect(message).not.toContain(API_KEY);
  });

  it('keeps Retry-After', async () => {
    always({ status: 503, retryAfter: 200 });
    const seconds = await gateway.post(path, body);
    expect(seconds.headers.get('retry-after')).toBe('200');
    await errorOf(seconds, 503);
    gateway.simulated.control.clear();
    always({ status: 503, retryAfter: new Date(Date.now() + 200_000).toUTCString() });
    const date = await gateway.post(path, body);
    expect(Number(date.headers.get('retry-after'))).toBeGreaterThan(100);
    expect(Number(date.headers.get('retry-after'))).toBeLessThanOrEqual(200);
    await errorOf(date, 503);
  });
});

describe('a provider without a usable answer', () => {
  it.each([
    ['an error in a 200', { errorIn200: true, message: 'secretly broken' }, 502],
    ['a 200 that is not JSON', { garbage: true }, 502],
    ['a page of HTML', { garbage: true, contentType: 'text/html' }, 502],
    ['a redirect', { status: 302 }, 502],
    ['half an answer', { cutAfterChunks: 1 }, 502],
    ['no answer in time', { hang: true }, 504],
    ['no headers in time', { headerDelayMs: 3000 }, 504],
    ['no body in time', { firstByteDelayMs: 3000 }, 504],
  ] as [string, Fault, number][])('with %s is a provider_error', async (_what, fault, status) => {
    const asked = status === 504 ? impatient : gateway;
    always(fault, asked);
    const [response, completion, embedding] = await Promise.all(
      surfaces.filter(([name]) => !/stream|passthrough/.test(name)).map(([, path, body]) => asked.post(path, body)),
    );
    for (const answer of [response, completion, embedding]) {
      expect(await errorOf(answer as Response, status)).toMatchObject({ type: 'provider_error', provider: 'llamacpp' });
    }
  });

  it.each([
    ['an error as the only event', { errorIn200: true, message: 'secretly broken' }, 502],
    ['an error as the first event', { errorInStream: 0, message: 'secretly broken' }, 502],
    ['another content type', { contentType: 'text/html', garbage: true }, 502],
    ['JSON in place of a stream', { contentType: 'application/json' }, 502],
    ['an end before the first event', { cutAfterChunks: 0 }, 502],
    ['no headers in time', { headerDelayMs: 3000 }, 504],
    ['no first event in time', { firstByteDelayMs: 3000 }, 504],
  ] as [string, Fault, number][])('with %s is an HTTP error for a streaming request', async (_what, fault, status) => {
    const asked = status === 504 ? impatient : gateway;
    always(fault, asked);
    for (const [, path, body] of surfaces.filter(([name]) => name.includes('stream'))) {
      const error = await errorOf(await asked.post(path, body), status);
      expect(error).toMatchObject({ type: 'provider_error', provider: 'llamacpp' });
      if (fault.message !== undefined) expect(error.message).toBe(fault.message);
    }
  });

  it('that cannot be reached is a 502', async () => {
    const answer = await ask({ ...chat, model: 'llamacpp-dead/some-model' });
    expect(await errorOf(answer, 502)).toMatchObject({ type: 'provider_error', provider: 'llamacpp-dead' });
    const passed = await gateway.fetch('/p/llamacpp-dead/props');
    expect(await errorOf(passed, 502)).toMatchObject({ type: 'provider_error', provider: 'llamacpp-dead' });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.filter(({ type }) => type === 'attempt.started')).toHaveLength(3);
  });

  it('that returns an empty list of choices is a 502', async () => {
    always({ emptyChoices: true });
    const answer = await gateway.post('/v1/responses', { model, input: 'hi' });
    expect(await errorOf(answer, 502)).toMatchObject({ type: 'provider_error' });
    expect(await errorOf(await ask(), 502)).toMatchObject({ code: 'bad_provider_answer' });
  });
});

describe('a stream that has begun', () => {
  it.each([
    ['is cut', { cutAfterChunks: 4 }, 'stream_incomplete'],
    ['ends before its finish reason', { endWithoutFinish: true, endWithoutDone: true }, 'stream_incomplete'],
    ['falls silent', { holdAfterChunks: 4 }, 'provider_timeout'],
    ['reports an error', { errorInStream: 4, message: 'out of memory', code: 'oom' }, 'oom'],
  ] as [string, Fault, string][])(
    'and %s, ends with an error in the envelope, and is not retried',
    async (_what, fault, code) => {
      gateway.simulated.control.always(fault);
      const { answer, calls } = await counted({ ...chat, stream: true });
      expect(answer.status).toBe(200);
      const text = await answer.text();
      const chunks = dataOf(text);
      expect(chunks.length).toBeGreaterThan(3);
      expectEnvelope(chunks.at(-1));
      expect(chunks.at(-1).error).toMatchObject({ type: 'provider_error', code, provider: 'llamacpp' });
      expect(eventsOf(text).map(({ data }) => data)).not.toContain('[DONE]');
      expect(calls()).toBe(1);
      const events = await eventsOfExchange(gateway, exchangeOf(answer));
      expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
        status: 200,
        code,
        reason: 'stream_broken',
        chunks: events.filter(({ type }) => type === 'chunk.received').length,
      });
    },
  );

  it.each(surfaces.filter(([name]) => name.includes('stream')))(
    'and reports an error that contains the API key, does not reveal the key: %s',
    async (_surface, path, body) => {
      always({ errorInStream: 3, message: `Incorrect API key provided: ${API_KEY}.` });
      const answer = await gateway.post(path, body);
      const text = await answer.text();
      expect(text).toContain('Incorrect API key');
      expect(text).not.toContain(API_KEY);
    },
  );

  it('and only lacks its end marker, gets one', async () => {
    gateway.simulated.control.next({ endWithoutDone: true });
    const text = await (await ask({ ...chat, stream: true })).text();
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
  });

  it('and contains a cut event, ends with an error', async () => {
    gateway.simulated.control.next({ garbage: true });
    const text = await (await ask({ ...chat, stream: true })).text();
    expect(dataOf(text).at(-1).error).toMatchObject({ type: 'provider_error', code: 'bad_provider_answer' });
  });
});

describe("the gateway's own refusals", () => {
  it('name no provider, and mark what is not retryable', async () => {
    const answers: [Response, number, boolean][] = [
      [await ask({ ...chat, model: 'nobody/x' }), 404, false],
      [await ask({ model }), 400, false],
      [await gateway.fetch('/v1/nothing'), 404, false],
      [await fetch(`${gateway.url}/v1/models`), 401, false],
      [await gateway.fetch('/v1/responses/resp_1?provider=llamacpp'), 501, true],
    ];
    for (const [answer, status, noRetry] of answers) {
      if (noRetry) expect(answer.headers.get('x-should-retry')).toBe('false');
      expect(await errorOf(answer, status)).not.toHaveProperty('provider');
    }
  });

  it('of an unknown route name the method and the path', async () => {
    for (const [method, path] of [
      ['GET', '/v1/nothing'],
      ['PUT', '/v1/nothing/x'],
      ['GET', '/'],
      ['POST', '/v1'],
      ['GET', '/p/llamacpp'],
    ] as const) {
      const error = await errorOf(await gateway.fetch(path, { method }), 404);
      expect(error).toMatchObject({ type: 'not_found_error', message: expect.stringContaining(method) });
      expect(error.message).toContain(path);
    }
  });

  it('are recorded after their request', async () => {
    const answer = await ask({ ...chat, model: 'nobody/x' });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toEqual(['request.received', 'request.refused']);
    expect(events[1]?.data).toMatchObject({
      status: 404,
      type: 'not_found_error',
      code: 'model_not_found',
      param: 'model',
    });
  });
});

describe('a provider that cannot be listed', () => {
  const running: { close(): Promise<void> }[] = [];
  afterAll(async () => {
    for (const one of running) await one.close();
  });

  it('is still called when it is named, and its error is returned', async () => {
    const scripted = await startScriptedProvider();
    scripted.script((_request, response) => response.writeHead(403).end());
    const own = await startTestGateway({
      simulated: false,
      env: { LLAMACPP_BASE_URL: 'http://127.0.0.1:1/v1', RETRY_MAX_RETRIES: '0' },
    });
    running.push(own, scripted);
    const answer = await own.fetch('/v1/chat/completions', { json: chat });
    expect(await errorOf(answer, 502)).toMatchObject({ type: 'provider_error', provider: 'llamacpp' });
    const models = await own.fetch('/v1/models');
    expect(await json(models)).toEqual({ object: 'list', data: [] });
  });
});

describe('a failed write to the log is a 503 log_unavailable', () => {
  it('with Retry-After when nothing was recorded', () => {
    const refusal = toRefusal(new LogUnavailable('no space is left', 'none'), 1024);
    expect(refusal).toMatchObject({ status: 503, code: 'log_unavailable', retryAfterSeconds: 1 });
    expect(refusal.message).toContain('Nothing was half-done');
  });

  it('also with x-should-retry: false when it is not known whether something was recorded', () => {
    const refusal = toRefusal(new LogUnavailable('no answer', 'unknown'), 1024);
    expect(refusal).toMatchObject({ status: 503, code: 'log_unavailable', retryAfterSeconds: 1 });
    expect(refusalHeaders(refusal)).toEqual({ 'retry-after': '1', 'x-should-retry': 'false' });
    expect(refusal.message).toContain('not known');
    expect(refusal.message).not.toContain('half-done');
  });
});
