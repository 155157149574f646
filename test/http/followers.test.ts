/** Followers of an answer to another request: by `GET …?stream=true`, or under the same `Idempotency-Key`. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { RawClient } from '../support/raw-client.ts';
import { dataOf, errorOf, eventsUntil, exchangeOf, json, readUntil, user } from '../support/with-gateway.ts';

const model = 'llamacpp/simulated-small';
const CHAT = '/v1/chat/completions';
const chat = { path: CHAT };
const silent = { firstByteDelayMs: 60_000 };
let provider: SimulatedProvider;
let upstream = '';
let gateway: TestGateway;
let stopping: Promise<void> | undefined;

beforeAll(async () => {
  provider = createSimulatedProvider({ responses: 'absent' });
  upstream = await provider.listen();
});
beforeEach(async () => {
  const env = {
    LLAMACPP_BASE_URL: upstream,
    DRAIN_TIMEOUT: '0s',
    RETRY_MAX_RETRIES: '0',
    CIRCUIT_BREAKER_ENABLED: 'false',
  };
  gateway = await startTestGateway({ simulated: false, env });
  stopping = undefined;
});
afterEach(async () => {
  provider.control.clear();
  provider.control.release();
  if (stopping === undefined) await gateway.close();
  await stopping;
});
afterAll(() => provider.close());

const calls = () => provider.requests.filter(({ method, path }) => method === 'POST' && path === CHAT).length;

/** A background response on which the provider is working. */
async function running(fault: object, body: object = {}): Promise<string> {
  const before = calls();
  provider.control.next(fault, chat);
  const requestBody = { model, input: 'Write 50 words', background: true, ...body };
  const { id } = await json(await gateway.fetch('/v1/responses', { json: requestBody }));
  await expect.poll(calls).toBe(before + 1);
  return id;
}

function stop(): Promise<void> {
  stopping = gateway.gateway.stop('test').then(() => {});
  return stopping;
}

async function inFlight(): Promise<string | undefined> {
  const metrics = await (await gateway.fetch('/metrics')).text();
  return /^gateway_requests_in_flight (\d+)$/m.exec(metrics)?.[1];
}

const follow = (id: string, query = '') => gateway.fetch(`/v1/responses/${id}?stream=true${query}`);

describe('a follower of a background response', () => {
  it.each([
    ['as a stream', { stream: true }],
    ['in one piece', {}],
  ])('made %s receives its failure before any output', async (_how, how) => {
    provider.control.next({ headerDelayMs: 300, status: 500, message: 'out of order' }, chat);
    const requestBody = { model, input: 'hi', background: true, ...how };
    const creating = gateway.fetch('/v1/responses', { json: requestBody });
    const events = await eventsUntil(gateway, 'types=response.stored', ({ data }) => data.status === 'in_progress');
    const id = events[0]?.stream.slice('response-'.length) ?? '';
    const received = dataOf(await (await follow(id)).text());
    expect(received.at(-1)).toMatchObject({ type: 'response.failed', response: { id, status: 'failed' } });
    expect(received.map(({ sequence_number: number }) => number)).toEqual([0, 1, 2, 3]);
    await (await creating).text();
  });

  it('receives its cancellation', async () => {
    const id = await running(silent);
    const followed = await follow(id);
    await gateway.fetch(`/v1/responses/${id}/cancel`, { json: {} });
    expect(dataOf(await followed.text()).at(-1)).toMatchObject({
      type: 'response.failed',
      response: { id, status: 'cancelled' },
    });
  });

  it('is cut off when the gateway stops, so that the partial answer does not look whole', async () => {
    const id = await running(silent);
    const followed = await follow(id);
    const text = followed.text();
    const stopped = stop();
    await expect(text).rejects.toThrow();
    await stopped;
  });

  it('that sends HEAD receives the head at once', async () => {
    const id = await running(silent);
    const client = await RawClient.open(gateway.url);
    const head = `HEAD /v1/responses/${id}?stream=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer test-master-key\r\n\r\n`;
    client.send(head);
    const line = await new Promise<string>((resolve) =>
      client.socket.once('data', (bytes) => resolve(bytes.toString())),
    );
    expect(line).toMatch(/^HTTP\/1\.1 200 /);
    expect(line).toContain('content-type: text/event-stream');
    client.close();
  });

  it('that disconnects is not served any more', async () => {
    const id = await running(silent);
    const left = new AbortController();
    await gateway.fetch(`/v1/responses/${id}?stream=true`, { signal: left.signal });
    expect(await inFlight()).toBe('2');
    left.abort();
    await expect.poll(inFlight).toBe('1');
  });
});

describe('a second request under the same key', () => {
  const post = (body: object, init: RequestInit = {}) =>
    gateway.fetch(CHAT, {
      ...init,
      headers: { 'idempotency-key': 'k' },
      json: { model, messages: user('Write 50 words'), ...body },
    });

  async function joined(body: object): Promise<[Promise<Response>, Promise<Response>]> {
    const before = calls();
    const first = post(body);
    await expect.poll(calls).toBe(before + 1);
    const second = post(body);
    await expect.poll(inFlight).toBe('2');
    return [first, second];
  }

  it('receives 503 stopping when the gateway stops before there is an answer', async () => {
    provider.control.next(silent, chat);
    const [first, second] = await joined({});
    const stopped = stop();
    expect((await first).headers.get('retry-after')).toBe('5');
    expect(await errorOf(await first, 503)).toMatchObject({ code: 'stopping' });
    expect(await errorOf(await second, 503)).toMatchObject({ code: 'stopping' });
    await stopped;
  });

  it('is cut off, or ends with an error, when the gateway stops in the middle of a stream', async () => {
    provider.control.next({ holdAfterChunks: 4 }, chat);
    const [first, second] = await joined({ stream: true });
    const texts = Promise.allSettled([first, second].map(async (answer) => (await answer).text()));
    await expect.poll(() => provider.requests.at(-1)?.framesSent).toBe(4);
    await stop();
    const [one, other] = await texts;
    expect(one).toMatchObject({ status: 'fulfilled', value: expect.stringContaining('"code":"stopping"') });
    if (other?.status === 'fulfilled') expect(other.value).toContain('"code":"stopping"');
  });

  it('calls the provider itself when the first one fails without an answer', async () => {
    provider.control.next({ headerDelayMs: 300, status: 500 }, chat);
    const [first, second] = await joined({});
    await errorOf(await first, 500);
    expect((await second).status).toBe(200);
    expect((await second).headers.get('idempotent-replayed')).toBeNull();
  });

  it('calls the provider itself when the first stream begins with an error', async () => {
    provider.control.next({ headerDelayMs: 300, errorInStream: 0 }, chat);
    const [first, second] = await joined({ stream: true });
    expect((await first).status).toBeGreaterThanOrEqual(400);
    const answer = await second;
    expect(answer.headers.get('idempotent-replayed')).toBeNull();
    expect(dataOf(await answer.text()).at(-1).choices[0].finish_reason).toBe('stop');
  });

  it('fails too, in the record as well, when the stream breaks off', async () => {
    provider.control.next({ holdAfterChunks: 4, cutAfterChunks: 5 }, chat);
    const [first, second] = await joined({ stream: true });
    const answer = await second;
    const text = await readUntil(answer.clone(), 'content');
    expect(text).not.toBe('');
    provider.control.release();
    expect(await answer.text()).toBe(await (await first).text());
    const events = await eventsUntil(gateway, `stream=exchange-${exchangeOf(answer)}`, ({ type }) =>
      type.startsWith('exchange.'),
    );
    expect(events.at(-1)).toMatchObject({ type: 'exchange.failed', data: { reason: 'stream_broken' } });
  });
});
