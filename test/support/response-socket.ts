/** A WebSocket of `/v1/responses` or of another route, with its messages in order. */
import { once } from 'node:events';
import WebSocket from 'ws';
import type { Answered } from './answered.ts';
import { MASTER_KEY } from './gateway.ts';

export interface TestSocket {
  readonly socket: WebSocket;
  send(message: unknown): void;
  /** The next message that fulfils the condition; those before it are skipped. */
  until(isLast: (message: Answered) => boolean): Promise<Answered>;
  /** Sends `response.create` and waits for the last message of that response. */
  turn(body: object): Promise<Answered>;
  /** Resolves with the code and the reason. */
  readonly closed: Promise<readonly [code: number, reason: string]>;
  /** All messages so far. */
  readonly messages: readonly Answered[];
}

const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);

export const isEnd = ({ type }: Answered) => ENDS.has(type);

export function socketUrl(url: string, path = '/v1/responses'): string {
  return url.replace(/^http/, 'ws') + path;
}

/** The status, and the error of a refused upgrade. */
export async function refusedSocket(
  url: string,
  headers: Record<string, string> = { authorization: `Bearer ${MASTER_KEY}` },
  path?: string,
): Promise<{ readonly status: number | undefined; readonly error: Answered }> {
  const socket = new WebSocket(socketUrl(url, path), { headers });
  socket.on('error', () => {});
  const [, answer] = await once(socket, 'unexpected-response');
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece);
  return { status: answer.statusCode, error: JSON.parse(Buffer.concat(pieces).toString()).error };
}

interface SocketOptions extends WebSocket.ClientOptions {
  readonly path?: string;
  readonly protocols?: string[];
}

/** @param key sent as a header; empty: none is sent */
export async function openSocket(
  url: string,
  key = MASTER_KEY,
  { path, protocols, ...options }: SocketOptions = {},
): Promise<TestSocket> {
  const headers = { ...(key !== '' && { authorization: `Bearer ${key}` }), ...options.headers };
  const socket = new WebSocket(socketUrl(url, path), protocols ?? [], { ...options, headers });
  const messages: Answered[] = [];
  let read = 0;
  let arrived = Promise.withResolvers<void>();
  const wake = () => {
    arrived.resolve();
    arrived = Promise.withResolvers();
  };
  socket.on('message', (data) => {
    messages.push(JSON.parse(String(data)));
    wake();
  });
  socket.on('error', () => {});
  // Not `once`: it rejects when the handshake fails.
  const closed = new Promise<readonly [code: number, reason: string]>((resolve) => {
    socket.once('close', (code, reason) => resolve([code, String(reason)]));
  });
  void closed.then(wake);
  await once(socket, 'open');
  const until: TestSocket['until'] = async (isLast) => {
    for (;;) {
      const message = messages[read];
      if (message !== undefined) {
        read += 1;
        if (isLast(message)) return message;
      } else if (socket.readyState === WebSocket.CLOSED) throw new Error('the socket is closed');
      else await arrived.promise;
    }
  };
  return {
    socket,
    messages,
    closed,
    until,
    send: (message) => socket.send(typeof message === 'string' ? message : JSON.stringify(message)),
    turn(body) {
      socket.send(JSON.stringify({ type: 'response.create', ...body }));
      return until(isEnd);
    },
  };
}
