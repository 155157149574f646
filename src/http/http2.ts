/** HTTP/2 of clients with TLS: each stream becomes a request of the server that also has the requests of HTTP/1. */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import {
  constants,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type Http2Session,
  type Http2Stream,
} from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { rawRefusal } from './errors.ts';

export interface Http2Options {
  /** Handles a request, as of HTTP/1. */
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  readonly maxHeaderBytes: number;
  readonly requestTimeoutMs: number;
  /** A connection without open streams is closed after this time without a sign of life. */
  readonly idleMs: number;
}

export interface Http2Connections {
  take(socket: TLSSocket): void;
  /** Ends each connection after its open streams. */
  stop(): void;
  /** Ends all connections. */
  close(): void;
}

/** Of one connection at the same time. */
const MAX_STREAMS = 256;

export function createHttp2({ handle, maxHeaderBytes, requestTimeoutMs, idleMs }: Http2Options): Http2Connections {
  const sessions = new Set<Http2Session>();
  const server = createServer({
    settings: { maxConcurrentStreams: MAX_STREAMS, maxHeaderListSize: maxHeaderBytes, enablePush: false },
  });
  server.on('session', (session) => {
    let streams = 0;
    sessions.add(session);
    continueAfterStreamErrors(session);
    session.once('close', () => sessions.delete(session));
    session.on('stream', (stream) => {
      streams++;
      stream.once('close', () => streams--);
    });
    session.setTimeout(idleMs, () => {
      if (streams === 0) session.close();
    });
  });
  server.on('request', (request, response) => {
    const { headers, bytes } = plainHeaders(request);
    if (bytes > maxHeaderBytes) return refuse(response, 'HPE_HEADER_OVERFLOW');
    Object.defineProperty(request, 'headers', { value: headers });
    likeHttp1(response);
    if (!request.stream.endAfterHeaders) endWhenLate(request, response, requestTimeoutMs);
    handle(request as never, response as never);
  });
  return {
    take: (socket) => server.emit('connection', socket),
    stop() {
      for (const session of sessions) session.close();
    },
    close() {
      for (const session of sessions) session.destroy();
    },
  };
}

/** `NGHTTP2_ERR_PROTO` */
const PROTOCOL_ERROR = -505;

/**
 * A malformed request, such as one whose body is longer than its content-length, ends its own stream (RFC 9113 §8.1.1): nghttp2
 * resets it. Node ends the session, too, as after an error of the connection, which resets no stream.
 */
function continueAfterStreamErrors(session: Http2Session): void {
  const open = new Set<Http2Stream>();
  session.on('stream', (stream) => {
    open.add(stream);
    stream.once('close', () => open.delete(stream));
  });
  const destroy = session.destroy.bind(session);
  session.destroy = (error, code) => {
    const isProtocolError = error instanceof Error && 'errno' in error && error.errno === PROTOCOL_ERROR;
    const isReset = ({ rstCode }: Http2Stream) => rstCode === constants.NGHTTP2_PROTOCOL_ERROR;
    const candidates = [...open].filter((stream) => !isReset(stream));
    if (!isProtocolError || candidates.length === 0) return destroy(error, code);
    // The stream is reset later in this turn.
    setImmediate(() => candidates.some(isReset) || destroy(error, code));
  };
}

/**
 * As in HTTP/1: without the pseudo-headers, with a host (RFC 9113 §8.3.1), and with the mark of a body whose length is not
 * known.
 */
function plainHeaders({ headers: received, authority, stream }: Http2ServerRequest) {
  const headers: IncomingHttpHeaders = {};
  let bytes = 0;
  for (const name in received) {
    const value = received[name];
    bytes += name.length + String(value).length;
    if (!name.startsWith(':')) headers[name] = value;
  }
  if (authority !== '') headers.host = authority;
  if (!stream.endAfterHeaders && headers['content-length'] === undefined) headers['transfer-encoding'] = 'chunked';
  return { headers, bytes };
}

/** Gives a response the members of HTTP/1 that it lacks, or that have another meaning in Node. */
function likeHttp1(response: Http2ServerResponse): void {
  const { stream } = response;
  const writeHead = response.writeHead.bind(response);
  Object.defineProperties(response, {
    destroyed: { get: () => stream.destroyed },
    closed: { get: () => stream.closed },
    // Node ends the stream itself when the client cancels it.
    writableFinished: { get: () => stream.writableFinished && !stream.aborted },
    // Node warns of a header that is not one of HTTP/2.
    writeHead: {
      value: (status: number, { connection: _, ...headers }: OutgoingHttpHeaders = {}) => writeHead(status, headers),
    },
  });
}

function endWhenLate(request: Http2ServerRequest, response: Http2ServerResponse, ms: number): void {
  const late = setTimeout(() => {
    if (response.headersSent) request.stream.close(constants.NGHTTP2_CANCEL);
    else refuse(response, 'ERR_HTTP_REQUEST_TIMEOUT');
  }, ms).unref();
  for (const event of ['end', 'close']) request.once(event, () => clearTimeout(late));
}

function refuse(response: Http2ServerResponse, code: string): void {
  const refusal = rawRefusal(code);
  response.writeHead(refusal.status, { 'content-type': 'application/json; charset=utf-8' });
  response.end(JSON.stringify(refusal.envelope()));
}
