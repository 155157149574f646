/** One end of a WebSocket as a session uses it: messages in order, and slow readers held back. */
import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';

export interface MessageListener {
  /** All messages that one read of the connection brings come in the same turn of the event loop. */
  message(message: Buffer, isBinary: boolean): void;
  /** Called once. @param code 1005: no code was sent, 1006: the connection broke (RFC 6455 §7.4.1) */
  closed(code: number, reason: string): void;
}

export interface MessageSocket {
  /** To be called once. Until then nothing is read. */
  listen(listener: MessageListener): void;
  /** @returns a promise while the other side reads too slowly; it resolves when it has caught up, or the socket is closed */
  send(message: Buffer, isBinary: boolean): Promise<void> | undefined;
  /** Reads no more, so that the other side is held back. */
  pause(): void;
  resume(): void;
  /** @returns false when the last ping was not answered: the socket is ended */
  ping(): boolean;
  /** @param code those that no endpoint may send become 1000 */
  close(code: number, reason: string): void;
  destroy(): void;
}

/** Of the reason of a close frame (RFC 6455 §5.5.1). */
const MAX_REASON_BYTES = 123;

/**
 * @param connection the one below the WebSocket
 * @param stallTimeoutMs a side that reads nothing for so long is disconnected
 */
export function messageSocketOf(webSocket: WebSocket, connection: Duplex, stallTimeoutMs: () => number): MessageSocket {
  let isAlive = true;
  let draining: Promise<void> | undefined;
  // What came with the handshake waits for the listener, too.
  webSocket.pause();
  // 'close' follows.
  webSocket.on('error', () => {});
  webSocket.on('pong', () => {
    isAlive = true;
  });
  return {
    listen({ message, closed }) {
      if (webSocket.readyState === webSocket.CLOSED) {
        closed(1006, '');
        return;
      }
      webSocket.on('message', (data: Buffer, isBinary) => message(data, isBinary));
      webSocket.once('close', (code, reason) => closed(code, reason.toString()));
      webSocket.resume();
    },
    send(message, isBinary) {
      if (webSocket.readyState !== webSocket.OPEN) return undefined;
      webSocket.send(message, { binary: isBinary });
      if (!connection.writableNeedDrain) return undefined;
      draining ??= drained(webSocket, connection, stallTimeoutMs()).then(() => {
        draining = undefined;
      });
      return draining;
    },
    pause: () => webSocket.pause(),
    resume: () => webSocket.resume(),
    ping() {
      // A side that reads slowly has what was sent before, and its own time limit.
      if (draining !== undefined || webSocket.readyState !== webSocket.OPEN) return true;
      if (!isAlive) {
        webSocket.terminate();
        return false;
      }
      isAlive = false;
      webSocket.ping();
      return true;
    },
    close(code, reason) {
      const isSendable =
        code === 1000 || (code >= 1001 && code <= 1014 && (code < 1004 || code > 1006)) || code >= 3000;
      webSocket.resume();
      webSocket.close(isSendable ? code : 1000, shortened(reason));
    },
    destroy: () => webSocket.terminate(),
  };
}

/** The beginning that fits, of whole characters. */
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= MAX_REASON_BYTES) return reason;
  return new TextDecoder().decode(Buffer.from(reason).subarray(0, MAX_REASON_BYTES - 3), { stream: true });
}

function drained(webSocket: WebSocket, connection: Duplex, stallTimeoutMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stalled = setTimeout(() => webSocket.terminate(), stallTimeoutMs);
  const over = () => {
    clearTimeout(stalled);
    connection.off('drain', over);
    connection.off('close', over);
    resolve();
  };
  connection.on('drain', over);
  connection.on('close', over);
  return promise;
}
