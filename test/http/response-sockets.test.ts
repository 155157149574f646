/** Responses over a WebSocket: the messages, the limits, the ends, and the record. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { native, translated, withBothKinds } from '../support/both-kinds.ts';
import { startTestGateway } from '../support/gateway.ts';
import { newKey } from '../support/managed-keys.ts';
import { isEnd, openSocket, refusedSocket, socketUrl } from '../support/response-socket.ts';
import { errorOf, eventsUntil, type LoggedEvent } from '../support/with-gateway.ts';

const { gateway, create } = withBothKinds();
const input = 'Say hello';

/** The events of the newest exchange that has such a type of event. */
async function exchangeWith(type: string, accepts: (event: LoggedEvent) => boolean = () => true) {
  const found = await eventsUntil(gateway, `types=${type}`, accepts);
  const stream = found.at(-1)?.stream ?? '';
  return eventsUntil(gateway, `stream=${stream}`, (event) => event.type === type);
}

const held = (model: string, more: object = {}) => ({ model, input, simulate: { holdAfterChunks: 2 }, ...more });

describe('response.steer', () => {
  it('is answered with the input that was not used, and recorded, and the response continues', async () => {
    const key = await newKey(gateway, { user_path: '/sockets/steered' });
    const socket = await openSocket(gateway.url, key.value);
    socket.send({ type: 'response.create', stream_id: 'a', ...held(translated) });
    const { response } = await socket.until(({ type }) => type === 'response.created');
    const steer = { previous_response_id: response.id, input: [{ role: 'user', content: 'Shorter.' }] };
    const isFailure = ({ type }: { type: string }) => type === 'response.steer.failed';
    socket.send({ type: 'response.steer', ...steer });
    expect(await socket.until(isFailure)).toMatchObject({
      ...{ sequence_number: 0, steer, stream_id: 'a' },
      error: { type: 'invalid_request_error', code: 'steering_not_supported', message: expect.any(String) },
    });
    socket.send({ type: 'response.steer', ...steer, previous_response_id: 'resp_none' });
    expect(await socket.until(isFailure)).toMatchObject({ error: { code: 'response_not_found' } });
    gateway.simulated.control.release();
    expect(await socket.until(isEnd)).toMatchObject({ type: 'response.completed', response: { id: response.id } });
    let refused = 0;
    const isLast = ({ type, userPath }: LoggedEvent) =>
      type === 'request.refused' && userPath === '/sockets/steered' && ++refused === 2;
    const events = await eventsUntil(gateway, 'user_path=/sockets/steered', isLast);
    expect(events.filter(({ type }) => type === 'request.refused').map(({ data }) => data.code)).toEqual([
      'steering_not_supported',
      'response_not_found',
    ]);
    socket.socket.close();
  });
});

describe('response.create', () => {
  it.each([
    ['translated', translated],
    ['native', native],
  ])('sends the events of a stream, one message each (%s)', async (_kind, model) => {
    const socket = await openSocket(gateway.url);
    const end = await socket.turn({ model, input });
    expect(end).toMatchObject({ type: 'response.completed', response: { status: 'completed', object: 'response' } });
    const types = socket.messages.map(({ type }) => type);
    expect([types[0], types.at(-1)]).toEqual(['response.created', 'response.completed']);
    expect(types).toContain('response.output_text.delta');
    expect(socket.messages.every((message) => !('stream_id' in message))).toBe(true);
    const stored = await gateway.fetch(`/v1/responses/${end.response.id}`);
    expect(stored.status).toBe(200);
    socket.socket.close();
  });

  it('continues a stored response, also one that was made over HTTP', async () => {
    const first = await create({ input });
    const socket = await openSocket(gateway.url);
    const second = await socket.turn({ model: translated, input: 'and again', previous_response_id: first.id });
    const third = await socket.turn({
      model: translated,
      input: 'once more',
      previous_response_id: second.response.id,
    });
    expect(third).toMatchObject({ response: { previous_response_id: second.response.id } });
    expect(JSON.parse(gateway.lastProviderRequest().body).messages).toHaveLength(5);
    socket.socket.close();
  });

  it('is recorded as one exchange with a request of its own', async () => {
    const key = await newKey(gateway, { user_path: '/sockets/recorded' });
    const socket = await openSocket(gateway.url, key.value, {
      headers: { 'x-session-id': 'a-session', 'idempotency-key': 'of the upgrade' },
    });
    await socket.turn({ model: translated, input, store: false, stream: false });
    await socket.turn({ model: translated, input, store: false });
    let ends = 0;
    const events = await eventsUntil(
      gateway,
      'types=request.received,exchange.completed&user_path=/sockets/recorded',
      ({ type }) => type === 'exchange.completed' && ++ends === 2,
    );
    const received = events.filter(
      ({ type, userPath }) => type === 'request.received' && userPath === '/sockets/recorded',
    );
    expect(received).toHaveLength(2);
    expect(new Set(received.map(({ requestId }) => requestId)).size).toBe(2);
    expect(received[0]).toMatchObject({
      actor: `key:${key.id}`,
      data: { sessionId: expect.stringMatching(/^scoped-/), path: '/v1/responses' },
    });
    expect(JSON.stringify(received)).not.toContain(key.value);
    socket.socket.close();
  });

  it('runs one response on each of 16 streams, and names the stream in each message', async () => {
    const socket = await openSocket(gateway.url);
    const begun = ({ type }: { type: string }) => type === 'response.created';
    for (let stream = 0; stream < 16; stream++) {
      socket.send({ type: 'response.create', stream_id: `s${stream}`, ...held(translated) });
      expect((await socket.until(begun)).stream_id).toBe(`s${stream}`);
    }
    socket.send({ type: 'response.create', stream_id: 's3', model: translated, input });
    expect(await socket.until(isEnd)).toMatchObject({
      ...{ type: 'error', status: 409, stream_id: 's3' },
      error: { code: 'response_already_in_flight', param: 'stream_id', type: 'invalid_request_error' },
    });
    socket.send({ type: 'response.create', model: translated, input });
    expect(await socket.until(isEnd)).toMatchObject({ status: 429, error: { code: 'too_many_streams' } });
    gateway.simulated.control.release();
    const ended = new Set<string>();
    while (ended.size < 16) ended.add((await socket.until(({ type }) => type === 'response.completed')).stream_id);
    expect(await socket.turn({ model: translated, input })).toMatchObject({ type: 'response.completed' });
    socket.socket.close();
  });

  it.each([
    ['{', 'invalid_json', null],
    ['[]', null, null],
    [{ type: 'response.inject', model: translated, input }, 'invalid_value', 'type'],
    [{ type: 'response.create', input }, 'missing_required_parameter', 'model'],
    [{ type: 'response.create', model: translated, input, background: true }, 'unsupported_parameter', 'background'],
    [{ type: 'response.create', model: translated, input, stream_id: 7 }, 'invalid_value', 'stream_id'],
    [`{"type":"response.create","model":"a","model":"b","input":"c"}`, 'repeated_member', null],
    [{ type: 'response.cancel', response_id: 'resp_none' }, null, null],
  ])('answers %j with an error, records it, and serves the next message', async (message, code, param) => {
    const socket = await openSocket(gateway.url);
    socket.send(message);
    const error = await socket.until(isEnd);
    expect(error).toMatchObject({
      type: 'error',
      status: code === null && message !== '[]' ? 404 : 400,
      error: { code, param },
    });
    const id = error.headers['x-request-id'];
    await eventsUntil(gateway, 'types=request.refused', ({ requestId }) => requestId === id);
    expect(await socket.turn({ model: translated, input })).toMatchObject({ type: 'response.completed' });
    socket.socket.close();
  });

  it('leaves room for other clients when a socket sends thousands of messages at once', async () => {
    const narrow = await startTestGateway({ env: { MAX_CONCURRENT_REQUESTS: '40' } });
    try {
      const socket = await openSocket(narrow.url);
      for (let sent = 0; sent < 3_000; sent++) socket.send('{}');
      for (let got = 0; got < 3_000; got++) expect((await socket.until(isEnd)).status).toBe(400);
      expect(await socket.turn({ model: translated, input })).toMatchObject({ type: 'response.completed' });
      socket.socket.close();
    } finally {
      await narrow.close();
    }
  });

  it('answers a binary message with an error', async () => {
    const socket = await openSocket(gateway.url);
    socket.socket.send(Buffer.from('{}'));
    expect(await socket.until(isEnd)).toMatchObject({ status: 400, error: { message: 'Messages must be text.' } });
    socket.socket.close();
  });

  it("sends a provider's refusal as an error, and a broken answer as response.failed", async () => {
    const socket = await openSocket(gateway.url);
    const broken = await socket.turn({ model: native, input, simulate: { cutAfterChunks: 4 } });
    expect(broken).toMatchObject({ type: 'response.failed', response: { status: 'failed' } });
    const refused = await socket.turn({ model: native, input, simulate: { status: 429, retryAfter: 3 } });
    expect(refused).toMatchObject({
      type: 'error',
      status: 429,
      error: { type: 'rate_limit_error', provider: 'openai' },
    });
    expect(refused.headers).toMatchObject({ 'retry-after': '3', 'x-exchange-id': expect.any(String) });
    expect(socket.messages.filter(({ type }) => type === 'error')).toHaveLength(1);
    socket.socket.close();
  });

  it('is refused over the size of a request body with code 1009', async () => {
    const small = await startTestGateway({ env: { BODY_SIZE_LIMIT: '100K' } });
    try {
      const socket = await openSocket(small.url);
      socket.send({ type: 'response.create', model: translated, input: 'x'.repeat(200_000) });
      expect((await socket.closed)[0]).toBe(1009);
    } finally {
      await small.close();
    }
  });
});

describe('response.cancel', () => {
  it('ends the response of its stream; another one can begin', async () => {
    const socket = await openSocket(gateway.url);
    socket.send({ type: 'response.create', ...held(translated) });
    const { response } = await socket.until(({ type }) => type === 'response.created');
    socket.send({ type: 'response.cancel', response_id: response.id });
    expect(await socket.until(isEnd)).toMatchObject({
      type: 'error',
      status: 409,
      error: { code: 'response_cancelled' },
    });
    expect(await socket.turn({ model: translated, input })).toMatchObject({ type: 'response.completed' });
    socket.socket.close();
  });
});

describe('an upgrade', () => {
  it('passes the checks of a request: its key, its address, its origin', async () => {
    expect(await refusedSocket(gateway.url, {})).toMatchObject({ status: 401, error: { code: 'missing_credentials' } });
    expect(await refusedSocket(gateway.url, { authorization: 'Bearer sk-wrong' })).toMatchObject({ status: 401 });
    const elsewhere = await newKey(gateway, { allowed_cidrs: ['192.0.2.0/24'] });
    expect(await refusedSocket(gateway.url, { authorization: `Bearer ${elsewhere.value}` })).toMatchObject({
      ...{ status: 403, error: { code: 'network_not_allowed' } },
    });
    const open = await startTestGateway({ env: { GATEWAY_UNSAFE_OPEN: 'true', GATEWAY_MASTER_KEY: '' } });
    try {
      expect(await refusedSocket(open.url, { origin: 'http://attacker.example' })).toMatchObject({
        ...{ status: 403, error: { code: 'cross_site_refused' } },
      });
      expect(await refusedSocket(open.url, { host: 'attacker.example' })).toMatchObject({
        ...{ status: 403, error: { code: 'host_not_allowed' } },
      });
    } finally {
      await open.close();
    }
  });

  it('is on record when it is refused with a valid key', async () => {
    const key = await newKey(gateway, { user_path: '/sockets/refused' });
    const answer = await key.fetch('/v1/responses');
    expect(answer.headers.get('upgrade')).toBe('websocket');
    expect((await errorOf(answer, 426)).code).toBe('upgrade_required');
    const refused = await exchangeWith('request.refused', ({ userPath }) => userPath === '/sockets/refused');
    expect(refused.at(-1)).toMatchObject({ data: { code: 'upgrade_required' } });
  });

  it('is below the base path only, and is ignored for other routes', async () => {
    const based = await startTestGateway({ env: { BASE_PATH: '/gw' } });
    try {
      const socket = await openSocket(`${based.url}`);
      expect(await socket.turn({ model: translated, input })).toMatchObject({ type: 'response.completed' });
      socket.socket.close();
      const root = new URL(based.url).origin;
      expect((await refusedSocket(root)).status).toBe(404);
    } finally {
      await based.close();
    }
    const headers = { authorization: 'Bearer test-master-key' };
    const models = new WebSocket(socketUrl(gateway.url).replace('responses', 'models'), { headers });
    models.on('error', () => {});
    const [, answer] = await once(models, 'unexpected-response');
    expect(answer.statusCode).toBe(200);
    answer.destroy();
  });

  it.each([
    ['without a key of the handshake', 'sec-websocket-version: 13\r\n', 400],
    ['with another version', 'sec-websocket-version: 8\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n', 426],
  ])('is refused %s, and its connection ends', async (_what, head, status) => {
    const { port } = new URL(gateway.url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(
      `GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n${head}authorization: Bearer test-master-key\r\n\r\n`,
    );
    let text = '';
    for await (const piece of socket) text += piece;
    expect(text).toContain(`HTTP/1.1 ${status} `);
    expect(text.toLowerCase()).toContain('connection: close');
  });

  it('survives clients that leave during the handshake', async () => {
    const { port } = new URL(gateway.url);
    for (let client = 0; client < 20; client++) {
      const socket = connect(Number(port), '127.0.0.1');
      await once(socket, 'connect');
      socket.write(
        'GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: Bearer test-master-key\r\n\r\n',
      );
      socket.resetAndDestroy();
    }
    expect((await gateway.fetch('/health')).status).toBe(200);
  });
});

describe('a socket', () => {
  it('that leaves ends its responses as a client that disconnects from a stream', async () => {
    const key = await newKey(gateway, { user_path: '/sockets/leaving' });
    const socket = await openSocket(gateway.url, key.value);
    socket.send({ type: 'response.create', ...held(translated) });
    await socket.until(({ type }) => type === 'response.created');
    socket.socket.terminate();
    const events = await exchangeWith('client.disconnected', ({ userPath }) => userPath === '/sockets/leaving');
    expect(events[0]).toMatchObject({ type: 'request.received', userPath: '/sockets/leaving' });
  });

  it.each([
    ['deactivated', (id: string) => gateway.fetch(`/admin/auth-keys/${id}/deactivate`, { method: 'POST' })],
    [
      'restricted to other networks',
      (id: string) =>
        gateway.fetch(`/admin/auth-keys/${id}/allowed-cidrs`, {
          method: 'PUT',
          json: { allowed_cidrs: ['192.0.2.0/24'] },
        }),
    ],
  ])('is closed with 1008 when its key is %s, idle or not', async (_what, change) => {
    const key = await newKey(gateway);
    const [idle, busy] = [await openSocket(gateway.url, key.value), await openSocket(gateway.url, key.value)];
    busy.send({ type: 'response.create', ...held(translated) });
    await busy.until(({ type }) => type === 'response.created');
    expect((await change(key.id)).ok).toBe(true);
    expect((await idle.closed)[0]).toBe(1008);
    expect((await busy.closed)[0]).toBe(1008);
  });

  it('gets an error for the first message after its key was deactivated', async () => {
    const key = await newKey(gateway);
    const socket = await openSocket(gateway.url, key.value);
    await gateway.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' });
    const before = gateway.simulated.requests.length;
    socket.send({ type: 'response.create', model: translated, input });
    expect((await socket.closed)[0]).toBe(1008);
    expect(gateway.simulated.requests.length).toBe(before);
  });

  it('that reads nothing holds the provider back, and is ended after the stall timeout', async () => {
    const slow = await startTestGateway({ env: { STREAM_STALL_TIMEOUT: '300ms' } });
    try {
      const socket = await openSocket(slow.url);
      (socket.socket as unknown as { _socket: { pause(): void } })._socket.pause();
      slow.simulated.control.next({ text: 'a long text. '.repeat(1_000_000), tokensPerChunk: 4000 });
      socket.send({ type: 'response.create', model: translated, input });
      await eventsUntil(slow, 'types=client.disconnected', () => true);
      expect(await slow.simulated.requests.at(-1)?.ended).toBe('aborted');
      socket.socket.terminate();
    } finally {
      await slow.close();
    }
  });
});

describe('limits of sockets', () => {
  it('bound their number by key, their age, and their time without use', async () => {
    const strict = await startTestGateway({
      env: { WEBSOCKET_MAX_PER_KEY: '2', WEBSOCKET_MAX_AGE: '1500ms', WEBSOCKET_IDLE_TIMEOUT: '60s' },
    });
    try {
      const key = await newKey(strict);
      const sockets = [await openSocket(strict.url, key.value), await openSocket(strict.url, key.value)];
      expect(await refusedSocket(strict.url, { authorization: `Bearer ${key.value}` })).toMatchObject({
        ...{ status: 429, error: { code: 'too_many_websockets' } },
      });
      (await openSocket(strict.url)).socket.terminate();
      for (const socket of sockets) {
        expect(await socket.until(isEnd)).toMatchObject({
          status: 400,
          error: { code: 'websocket_connection_limit_reached' },
        });
        expect(await socket.closed).toEqual([1001, 'websocket_connection_limit_reached']);
      }
      (await openSocket(strict.url, key.value)).socket.terminate();
    } finally {
      await strict.close();
    }
    const impatient = await startTestGateway({
      env: { WEBSOCKET_IDLE_TIMEOUT: '100ms', WEBSOCKET_PING_INTERVAL: '10ms' },
    });
    try {
      const socket = await openSocket(impatient.url);
      const silent = await openSocket(impatient.url, undefined, { autoPong: false });
      expect(await socket.closed).toEqual([1001, 'idle']);
      await silent.closed;
    } finally {
      await impatient.close();
    }
  });
});

describe('a stop of the gateway', () => {
  it('lets running responses finish, starts no new ones, and closes the sockets with 1012', async () => {
    const stopping = await startTestGateway({ env: { DRAIN_TIMEOUT: '20s' } });
    const [idle, busy] = [await openSocket(stopping.url), await openSocket(stopping.url)];
    busy.send({ type: 'response.create', ...held(translated) });
    await busy.until(({ type }) => type === 'response.created');
    const stopped = stopping.close();
    expect((await idle.closed)[0]).toBe(1012);
    busy.send({ type: 'response.create', stream_id: 'new', model: translated, input });
    expect(await busy.until(isEnd)).toMatchObject({ stream_id: 'new', status: 503, error: { code: 'stopping' } });
    stopping.simulated.control.release();
    expect(await busy.until(isEnd)).toMatchObject({ type: 'response.completed' });
    expect((await busy.closed)[0]).toBe(1012);
    await stopped;
  });

  it('ends a response with an error when its time is over', async () => {
    const stopping = await startTestGateway({ env: { DRAIN_TIMEOUT: '100ms' } });
    const socket = await openSocket(stopping.url);
    socket.send({ type: 'response.create', ...held(translated) });
    await socket.until(({ type }) => type === 'response.created');
    const stopped = stopping.close();
    expect(await socket.until(isEnd)).toMatchObject({ type: 'response.failed' });
    expect((await socket.closed)[0]).toBe(1012);
    await stopped;
  });
});
