/** A WebSocket of a provider (RFC 6455) that a session of one client takes over. */
import type { IncomingMessage } from 'node:http';
import { messageSocketOf } from '../network/message-socket.ts';
import type { ProviderReply, ProviderTimeouts, ReplyBody } from './provider.ts';
import { HEADERS_LIMIT, IDLE_LIMIT, type Transport } from './transport.ts';
import {
  cancelled,
  isProxyRefusal,
  lateAnswer,
  mayNotBegin,
  proxyRefused,
  tooLarge,
  unreachable,
} from './transport-failure.ts';

interface SessionSocketOptions {
  readonly provider: string;
  readonly transport: Transport;
  readonly timeouts: ProviderTimeouts | undefined;
  readonly mayBegin: (() => boolean) | undefined;
}

interface Handshake {
  /** With the scheme `http` or `https`. */
  readonly url: string;
  /** Name, value, name, value, … */
  readonly headers: readonly string[];
  readonly maxMessageBytes: number;
  readonly signal: AbortSignal;
}

/**
 * Resolves with 101 and the socket, or with the answer of a provider that refuses the upgrade.
 * @throws ProviderFailure
 */
export async function openSessionSocket(options: SessionSocketOptions, handshake: Handshake): Promise<ProviderReply> {
  const { provider, transport, timeouts, mayBegin } = options;
  const { url, headers, maxMessageBytes, signal } = handshake;
  const isProxied = transport.proxyUrl !== 'none';
  const limit = timeouts?.headers ?? HEADERS_LIMIT;
  const { promise, resolve, reject } = Promise.withResolvers<ProviderReply>();
  /** Ends what is open when nothing waits for it any more. */
  let abandon = () => {};
  const fail = (failure: Error) => {
    reject(failure);
    abandon();
  };
  const failed = (error: Error) =>
    fail(isProxied && isProxyRefusal(error) ? proxyRefused(provider, error) : unreachable(provider, error, isProxied));
  const late = setTimeout(() => fail(lateAnswer(provider, limit)), limit.ms);
  const abort = () => fail(cancelled(provider));
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();

  const connect = async () => {
    const [{ WebSocket }, connection] = await Promise.all([import('ws'), transport.open()]);
    let isOver = false;
    abandon = () => {
      isOver = true;
      connection.destroy();
    };
    promise.catch(() => abandon());
    await undefined;
    if (isOver) return;
    if (mayBegin?.() === false) {
      failed(mayNotBegin());
      return;
    }
    const webSocket = new WebSocket(url.replace(/^http/, 'ws'), {
      createConnection: () => connection,
      headers: headersOf(headers),
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
    });
    webSocket.on('error', failed);
    webSocket.once('unexpected-response', (_request, response) => {
      const { statusCode: status = 502, headers: given } = response;
      response.once('end', () => connection.destroy());
      const body = bodyOf(response, provider);
      resolve({ status: status < 200 ? 502 : status, headers: joined(given), body });
    });
    webSocket.once('open', () => {
      // It is closed with its session.
      abandon = () => {};
      const idle = timeouts?.idle ?? IDLE_LIMIT;
      const socket = messageSocketOf(webSocket, connection, () => idle.ms);
      resolve({ status: 101, headers: {}, body: noBody, socket, idle });
    });
  };
  connect().catch(failed);
  try {
    return await promise;
  } finally {
    clearTimeout(late);
    signal.removeEventListener('abort', abort);
  }
}

function headersOf(list: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < list.length; at += 2) headers[list[at] ?? ''] = list[at + 1] ?? '';
  return headers;
}

function joined(headers: IncomingMessage['headers']): Record<string, string> {
  const texts = Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]);
  return Object.fromEntries(texts.filter(([, value]) => value !== undefined));
}

const noBody: ReplyBody = {
  bytes: async () => Buffer.alloc(0),
  pieces: async () => {},
  arrived: 0,
  cancel() {},
};

function bodyOf(response: IncomingMessage, provider: string): ReplyBody {
  let arrived = 0;
  const pieces: ReplyBody['pieces'] = async (onPiece) => {
    for await (const piece of response) {
      arrived += piece.length;
      await onPiece(piece);
    }
  };
  return {
    pieces,
    async bytes(maxBytes) {
      const all: Buffer[] = [];
      await pieces((piece) => {
        if (arrived > maxBytes) throw tooLarge(provider, maxBytes);
        all.push(piece);
      });
      return Buffer.concat(all);
    },
    get arrived() {
      return arrived;
    },
    cancel: () => void response.destroy(),
  };
}
