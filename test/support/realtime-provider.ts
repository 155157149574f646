/** A provider of realtime sessions. A test reads what it got and writes what it sends; by itself it answers `response.create`. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import WebSocket, { WebSocketServer } from 'ws';
import type { Answered } from './answered.ts';

export interface ProviderSession {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly socket: WebSocket;
  /** All messages so far. */
  readonly received: readonly Answered[];
  send(message: unknown): void;
  /** The next message that fulfils the condition; those before it are skipped. */
  until(isLast: (message: Answered) => boolean): Promise<Answered>;
  /** Resolves with the code and the reason. */
  readonly closed: Promise<readonly [code: number, reason: string]>;
}

export interface CallOfProvider {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface RealtimeProvider {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly sessions: readonly ProviderSession[];
  /** Requests over HTTP, without listings. */
  readonly calls: readonly CallOfProvider[];
  /** Resolves with the session that is opened next. */
  next(): Promise<ProviderSession>;
  /** Answers further handshakes with this; undefined: accepts them. */
  refuse(answer: { readonly status: number; readonly body: object } | undefined): void;
  /** Of each response from now on. */
  usage: object;
  /** Whether it ends the responses that it begins. */
  endsResponses: boolean;
  close(): Promise<void>;
}

export const realtimeUsage = {
  total_tokens: 150,
  input_tokens: 100,
  output_tokens: 50,
  input_token_details: { text_tokens: 40, audio_tokens: 60, cached_tokens: 0 },
  output_token_details: { text_tokens: 10, audio_tokens: 40 },
};

/** 16 bits of silence, a tenth of a second. */
export const AUDIO = Buffer.alloc(4800).toString('base64');

export async function startRealtimeProvider(models: readonly string[] = ['gpt-realtime']): Promise<RealtimeProvider> {
  let refusal: { readonly status: number; readonly body: object } | undefined;
  let responses = 0;
  let waiting: ((session: ProviderSession) => void)[] = [];
  const sessions: ProviderSession[] = [];
  const calls: CallOfProvider[] = [];
  const server = createServer(async (request, response) => {
    const { url: path = '', headers } = request;
    if (path === '/v1/models') return void json(response, 200, listing(models));
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    calls.push({ path, headers, body: Buffer.concat(pieces).toString() });
    if (!path.startsWith('/v1/realtime/calls'))
      return void json(response, 404, { error: { message: 'no such route' } });
    response.writeHead(201, { 'content-type': 'application/sdp', location: '/v1/realtime/calls/rtc_1' });
    response.end('v=0 answer');
  });
  const sockets = new WebSocketServer({ noServer: true });
  const provider = {
    url: '',
    sessions,
    calls,
    usage: realtimeUsage as object,
    endsResponses: true,
    next: () => new Promise<ProviderSession>((resolve) => waiting.push(resolve)),
    refuse(answer: typeof refusal) {
      refusal = answer;
    },
    async close() {
      for (const { socket } of sessions) socket.terminate();
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
  server.on('upgrade', (request, socket, head) => {
    if (refusal !== undefined) {
      const { status, body } = refusal;
      const text = JSON.stringify(body);
      socket.end(
        `HTTP/1.1 ${status} Refused\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
      );
      return;
    }
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      const session = sessionOf(webSocket, request.url ?? '', request.headers);
      sessions.push(session);
      if (!session.path.includes('BidiGenerateContent')) {
        session.send({ type: 'session.created', session: { type: 'realtime', model: models[0] } });
      }
      webSocket.on('message', (data) => {
        const message = JSON.parse(String(data));
        if (message.type === 'session.update') session.send({ type: 'session.updated', session: message.session });
        if (message.type === 'response.create') answer(session, `resp_${++responses}`, provider);
      });
      const resolved = waiting;
      waiting = [];
      for (const resolve of resolved) resolve(session);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  provider.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return provider;
}

function answer(session: ProviderSession, id: string, { usage, endsResponses }: RealtimeProvider): void {
  const item = { item_id: 'item_1', output_index: 0, content_index: 0, response_id: id };
  session.send({
    type: 'response.created',
    response: { id, object: 'realtime.response', status: 'in_progress', output: [] },
  });
  session.send({ type: 'response.output_audio_transcript.delta', ...item, delta: 'hello' });
  session.send({ type: 'response.output_audio.delta', ...item, delta: AUDIO });
  if (!endsResponses) return;
  session.send({ type: 'response.output_audio.done', ...item });
  session.send({
    type: 'response.done',
    response: { id, object: 'realtime.response', status: 'completed', output: [], usage },
  });
}

function sessionOf(socket: WebSocket, path: string, headers: IncomingHttpHeaders): ProviderSession {
  const received: Answered[] = [];
  let read = 0;
  let sent = 0;
  let arrived = Promise.withResolvers<void>();
  const wake = () => {
    arrived.resolve();
    arrived = Promise.withResolvers();
  };
  socket.on('message', (data) => {
    received.push(JSON.parse(String(data)));
    wake();
  });
  socket.on('error', () => {});
  const closed = once(socket, 'close').then(([code, reason]) => [code, String(reason)] as const);
  void closed.then(wake);
  return {
    ...{ path, headers, socket, received, closed },
    send: (message) => socket.send(JSON.stringify({ event_id: `event_${++sent}`, ...Object(message) })),
    async until(isLast) {
      for (;;) {
        const message = received[read];
        if (message !== undefined) {
          read += 1;
          if (isLast(message)) return message;
        } else if (socket.readyState === WebSocket.CLOSED) throw new Error('the session is closed');
        else await arrived.promise;
      }
    },
  };
}

function listing(models: readonly string[]): object {
  return { object: 'list', data: models.map((id) => ({ id, object: 'model', created: 1, owned_by: 'test' })) };
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
