import { afterEach, describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import {
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  type LoggedEvent,
  modelsListed,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const gateway = withGateway({
  env: {
    HTTP_RESPONSE_HEADER_TIMEOUT: '1500ms',
    RETRY_MAX_RETRIES: '2',
    RETRY_INITIAL_BACKOFF: '2ms',
    CIRCUIT_BREAKER_ENABLED: 'false',
  },
});

const model = 'llamacpp/simulated-small';
const chat = { model, messages: user('Tell me something.') };
const ask = () => gateway.post('/v1/chat/completions', chat);
const posts = () => gateway.simulated.requests.filter(({ method }) => method === 'POST').length;

/** The answer to a request, and how often the provider was called for it. */
async function counted(body: object = chat) {
  const before = posts();
  const answer = await gateway.post('/v1/chat/completions', body);
  return { answer, calls: () => posts() - before };
}

describe('another attempt', () => {
  const received = (events: readonly LoggedEvent[]) =>
    events
      .filter(({ type }) => type.startsWith('attempt.'))
      .map(({ type, data }) => [type, data.attempt, data.kind ?? data.status]);

  it.each([
    [502, {}],
    [503, { stream: true }],
    [504, { stream: true }],
    [522, {}],
  ])('is made after a %i, and each is recorded', async (status, more) => {
    gateway.simulated.control.always({ failTimes: 2, status, key: `flaky-${status}` });
    const { answer, calls } = await counted({ ...chat, ...more });
    expect(answer.status).toBe(200);
    await answer.text();
    expect(calls()).toBe(3);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(received(events)).toEqual([
      ['attempt.started', 1, 'primary'],
      ['attempt.failed', 1, status],
      ['attempt.started', 2, 'retry'],
      ['attempt.failed', 2, status],
      ['attempt.started', 3, 'retry'],
    ]);
    const waits = events.filter(({ type }) => type === 'attempt.failed').map(({ data }) => data.retryInMs);
    expect(waits[0]).toBeGreaterThanOrEqual(1.8);
    expect(waits[1]).toBeGreaterThanOrEqual(3.6);
    expect(events.find(({ type }) => type === 'exchange.completed')?.data.attempt).toBe(3);
  });

  it('is made when the connection broke before any output', async () => {
    for (const fault of [{ cutAfterChunks: 0 }, { cutAfterChunks: 1 }]) {
      gateway.simulated.control.next(fault);
      const { answer, calls } = await counted({
        ...chat,
        stream: 'cutAfterChunks' in fault && fault.cutAfterChunks === 0,
      });
      expect(answer.status).toBe(200);
      await answer.text();
      expect(calls()).toBe(2);
    }
  });

  it('is made after the time in Retry-After', async () => {
    gateway.simulated.control.next({ status: 503, retryAfter: 1 });
    const before = performance.now();
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect(performance.now() - before).toBeGreaterThanOrEqual(990);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'attempt.failed')?.data.retryInMs).toBe(1000);
  });

  it.each([400, 401, 403, 404, 409, 422, 429, 500, 501])('is not made after a %i', async (status) => {
    gateway.simulated.control.always({ status });
    const { answer, calls } = await counted();
    // A 401 is about the gateway's own credential, and no fault of the client's.
    expect(answer.status).toBe(status === 401 ? 502 : status);
    expect(calls()).toBe(1);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'attempt.failed',
      'exchange.failed',
    ]);
    expect(events[3]?.data.retryInMs).toBeUndefined();
    expect(events[3]?.body).toContain(`simulated error ${status}`);
  });

  it('is not made after a timeout, nor more often than allowed', async () => {
    gateway.simulated.control.next({ hang: true });
    const late = await counted();
    expect(late.answer.status).toBe(504);
    expect(late.calls()).toBe(1);
    gateway.simulated.control.always({ status: 503 });
    const down = await counted();
    expect(down.answer.status).toBe(503);
    expect(down.calls()).toBe(3);
  });

  it.each([
    ['that is not JSON', { garbage: true }, chat],
    [
      'that is not JSON for a streaming request',
      { garbage: true, contentType: 'text/html' },
      { ...chat, stream: true },
    ],
    ['that is JSON for a streaming request', { contentType: 'application/json' }, { ...chat, stream: true }],
  ])('is not made after an answer %s: it was paid for, and so would the next one be', async (_what, fault, body) => {
    gateway.simulated.control.always(fault);
    const { answer, calls } = await counted(body);
    const error = await errorOf(answer, 502);
    expect(error).toMatchObject({ type: 'provider_error', code: 'bad_provider_answer' });
    expect(error.message).not.toContain('application/json where JSON');
    expect(calls()).toBe(1);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(received(events)).toEqual([
      ['attempt.started', 1, 'primary'],
      ['attempt.failed', 1, 502],
    ]);
    expect(events.find(({ type }) => type === 'attempt.failed')?.data.retryInMs).toBeUndefined();
  });

  it('is not awaited for a client that has left', async () => {
    gateway.simulated.control.always({ status: 503, retryAfter: 20 });
    const client = new AbortController();
    const providerRequest = gateway.simulated.nextRequest();
    const headers = { 'x-request-id': 'left-while-waiting' };
    const answer = gateway.post('/v1/chat/completions', chat, { signal: client.signal, headers });
    await (await providerRequest).ended;
    await eventsUntil(gateway, 'request_id=left-while-waiting', ({ type }) => type === 'attempt.started');
    client.abort();
    await expect(answer).rejects.toThrow();
    const events = await eventsUntil(
      gateway,
      'request_id=left-while-waiting',
      ({ type }) => type === 'client.disconnected',
    );
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'attempt.failed',
      'client.disconnected',
    ]);
  });
});

describe('a provider that keeps failing', () => {
  const running: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of running.splice(0)) await one.close();
  });
  const start = async (env: Record<string, string>) => {
    const own = await startTestGateway({ env: { RETRY_MAX_RETRIES: '1', RETRY_INITIAL_BACKOFF: '1ms', ...env } });
    running.push(own);
    await modelsListed(own);
    const calls = () => own.simulated.requests.filter(({ method }) => method === 'POST').length;
    return { own, calls, ask: () => own.fetch('/v1/chat/completions', { json: chat }) };
  };
  const changes = async (own: { fetch: typeof gateway.fetch }, last: string) =>
    (await eventsUntil(own, 'types=provider.circuit_changed', ({ data }) => data.state === last)).map(
      ({ data }) => data.state,
    );

  it('is skipped for a while, and used again when it has recovered', async () => {
    const { own, calls, ask } = await start({ CIRCUIT_BREAKER_TIMEOUT: '900ms' });
    own.simulated.control.always({ status: 503 });
    for (let exchange = 0; exchange < 5; exchange++) expect((await ask()).status).toBe(503);
    expect(calls()).toBe(10);
    const refused = await ask();
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(await errorOf(refused, 503)).toMatchObject({
      type: 'provider_error',
      message: expect.stringContaining('llamacpp'),
    });
    const events = await eventsOfExchange(own, exchangeOf(refused));
    expect(events.map(({ type }) => type)).toEqual(['request.received', 'model.resolved', 'request.refused']);
    // What names no model is counted apart.
    expect((await own.fetch('/p/llamacpp/props')).status).toBe(200);
    expect(calls()).toBe(10);

    own.simulated.control.clear();
    await expect.poll(async () => (await ask()).status, { interval: 20, timeout: 3000 }).toBe(200);
    expect((await ask()).status).toBe(200);
    expect(await changes(own, 'closed')).toEqual(['open', 'half_open', 'closed']);
  });

  it('is skipped again when its first probe fails', async () => {
    const { own, calls, ask } = await start({
      CIRCUIT_BREAKER_TIMEOUT: '600ms',
      CIRCUIT_BREAKER_FAILURE_THRESHOLD: '2',
    });
    own.simulated.control.always({ status: 500 });
    for (let exchange = 0; exchange < 2; exchange++) expect((await ask()).status).toBe(500);
    await expect.poll(async () => (await ask()).status, { interval: 20, timeout: 3000 }).toBe(500);
    expect(calls()).toBe(3);
    expect((await ask()).status).toBe(503);
    expect(calls()).toBe(3);
  });

  it('is not retried for a completion without choices that was to become a response', async () => {
    const own = await startTestGateway({ simulated: { responses: 'absent' } });
    running.push(own);
    await modelsListed(own);
    own.simulated.control.always({ emptyChoices: true });
    const answer = await own.fetch('/v1/responses', { json: { model, input: 'hi' } });
    expect(await errorOf(answer, 502)).toMatchObject({ type: 'provider_error' });
    const events = await eventsOfExchange(own, exchangeOf(answer));
    expect(events.filter(({ type }) => type === 'attempt.started').map(({ data }) => data.kind)).toEqual([
      'primary',
      'translation',
    ]);
  });

  it('is skipped also when all its answers are malformed', async () => {
    const { own, calls, ask } = await start({
      CIRCUIT_BREAKER_FAILURE_THRESHOLD: '2',
      CIRCUIT_BREAKER_FAILURE_ON_STATUSES: '503',
    });
    own.simulated.control.always({ garbage: true });
    for (let exchange = 0; exchange < 2; exchange++) expect((await ask()).status).toBe(502);
    expect((await ask()).status).toBe(503);
    expect(calls()).toBe(2);
  });

  it('is not skipped for refusals that are the fault of the client, or for clients that leave', async () => {
    const { own, ask } = await start({ CIRCUIT_BREAKER_FAILURE_THRESHOLD: '2' });
    own.simulated.control.always({ status: 400 });
    for (let exchange = 0; exchange < 4; exchange++) expect((await ask()).status).toBe(400);
    own.simulated.control.clear();
    own.simulated.control.always({ hang: true });
    for (let exchange = 0; exchange < 4; exchange++) {
      const client = new AbortController();
      const providerRequest = own.simulated.nextRequest();
      const answer = own.fetch('/v1/chat/completions', { json: chat, signal: client.signal });
      const request = await providerRequest;
      client.abort();
      await expect(answer).rejects.toThrow();
      await request.ended;
    }
    own.simulated.control.clear();
    expect((await ask()).status).toBe(200);
  });

  it('is not skipped for an answer that a client could not read in the requested form', async () => {
    const { own, calls } = await start({ CIRCUIT_BREAKER_FAILURE_THRESHOLD: '2' });
    for (let exchange = 0; exchange < 3; exchange++) {
      await own.fetch('/v1/embeddings', { json: { model, input: 'hi', stream: true } });
    }
    const before = calls();
    expect((await own.fetch('/v1/embeddings', { json: { model, input: 'hi' } })).status).toBe(200);
    expect(calls()).toBe(before + 1);
  });
});
