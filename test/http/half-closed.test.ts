/** Clients that end their side of the connection after the request: `shutdown(SHUT_WR)`, `nc -N`. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { eventsUntil, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway();
const PATH = '/v1/chat/completions';

/** A connection on which the request was sent and nothing more will be. */
function halfClosed(path: string, body?: object): Socket {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  const text = body === undefined ? '' : JSON.stringify(body);
  const head = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'host: gateway',
    `authorization: Bearer ${MASTER_KEY}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(text)}`,
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${text}`);
  return socket;
}

async function received(socket: Socket): Promise<string> {
  const pieces: Buffer[] = [];
  socket.on('data', (piece: Buffer) => pieces.push(piece));
  await once(socket, 'close');
  return Buffer.concat(pieces).toString();
}

const chat = { model: 'simulated-small', messages: user('Reply with exactly: hello') };

it.each([
  ['a list of models', '/v1/models', undefined, 'simulated-small'],
  ['a whole answer', PATH, chat, '"content":"hello"'],
  ['a stream', PATH, { ...chat, stream: true }, 'data: [DONE]'],
  ['a response', '/v1/responses', { model: 'simulated-small', input: 'Reply with exactly: hello' }, '"text":"hello"'],
  ['an error', PATH, { model: 'unknown' }, '"error"'],
] as const)('get %s', async (_what, path, body, part) => {
  const text = await received(halfClosed(path, body));
  expect(text).toMatch(/^HTTP\/1\.1 [24]/);
  expect(text).toContain(part);
});

it('get an answer that takes longer, after interim answers', async () => {
  gateway.simulated.control.next({ firstByteDelayMs: 900 }, { path: PATH });
  const text = await received(halfClosed(PATH, chat));
  expect(text).toMatch(/^(?:HTTP\/1\.1 100 Continue\r\n\r\n){2,}HTTP\/1\.1 200 OK\r\n/);
  expect(text).toContain('hello');
});

it('are found to have left when they have, and their provider is no longer called', async () => {
  gateway.simulated.control.always({ hang: true }, { path: PATH });
  const providerRequest = gateway.simulated.nextRequest();
  const socket = halfClosed(PATH, chat);
  const request = await providerRequest;
  socket.destroy();
  await request.ended;
  await eventsUntil(gateway, 'types=client.disconnected', () => true);
});

it('sends the trace of the client to the provider', async () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  for (const [path, body] of [
    [PATH, chat],
    ['/v1/responses', { model: 'simulated-small', input: 'hi' }],
    ['/v1/messages', { ...chat, max_tokens: 10 }],
    ['/v1/embeddings', { model: 'simulated-small', input: 'hi' }],
  ] as const) {
    const answer = await gateway.post(path, body, { headers: { traceparent } });
    await answer.text();
    expect(gateway.lastProviderRequest().headers['traceparent'], path).toBe(traceparent);
    await (await gateway.post(path, body)).text();
    expect(gateway.lastProviderRequest().headers['traceparent'], path).toBeUndefined();
  }
});
