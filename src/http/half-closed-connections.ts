/**
 * A client that ends its side of a connection while it waits for an answer has left, or sends nothing more and still reads
 * (RFC 9112 §9.3; `shutdown(SHUT_WR)`). The two differ only when something is sent to them: the connection of one that
 * has left is reset. So the client is sent interim answers (100, which every HTTP/1.1 client ignores), and is answered
 * unless the connection is reset.
 */
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Milliseconds after the end. Most answers are sent before the first interim answer. The reset is noticed at the second, or
 * at a later one on a slow connection.
 */
const INTERIM_ANSWERS = [300, 400, 1_500, 6_000];

/** Node's own setting, which its types lack: without it, the server ends its side when the client does. */
interface HalfOpenServer extends Server {
  httpAllowHalfOpen?: boolean;
}

export function answerHalfClosed(server: HalfOpenServer): void {
  server.httpAllowHalfOpen = true;
  /** The newest answer of each connection. */
  const answers = new WeakMap<Socket, ServerResponse>();
  server.on('request', (_request, response) => {
    if (response.socket !== null) answers.set(response.socket, response);
  });
  server.on('connection', (socket: Socket) => {
    // A connection that another process has accepted lacks it.
    socket.allowHalfOpen = true;
    socket.once('end', () => {
      const response = answers.get(socket);
      if (response === undefined || response.writableEnded) return;
      // A client that has received a part of its answer and ends the connection has left.
      if (response.headersSent) socket.end();
      else sendInterimAnswers(response);
    });
  });
}

function sendInterimAnswers(response: ServerResponse): void {
  if (response.req.httpVersion !== '1.1') return;
  const timers = INTERIM_ANSWERS.map((ms) =>
    setTimeout(() => {
      if (!response.headersSent && !response.destroyed) response.writeContinue();
    }, ms).unref(),
  );
  response.once('close', () => {
    for (const timer of timers) clearTimeout(timer);
  });
}
