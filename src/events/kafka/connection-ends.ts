/**
 * How connections of kafkajs 2.2.4 end. Without these changes:
 * - an answer that cannot be decoded is an uncaught exception, which stops the gateway;
 * - a connection that breaks within an answer takes the bytes of the next connection as the rest of that answer.
 */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';

interface Connection {
  socket?: Socket;
  chunks: Buffer[];
  bytesBuffered: number;
  bytesNeeded: number;
  isConnected(): boolean;
  connect(): Promise<unknown>;
  processData(bytes: Buffer): void;
}

const load = createRequire(import.meta.url);
/** Of the length of an answer. */
const lengthBytes = 4;

/** In this process. Called once, by `kafkajs.ts`. */
export function endConnectionsWhole(): void {
  // Not part of the interface of kafkajs, whose version is pinned.
  const { prototype } = load('kafkajs/src/network/connection.js') as { prototype: Connection };
  const { connect, processData } = prototype;
  prototype.connect = function (this: Connection): Promise<unknown> {
    if (!this.isConnected()) Object.assign(this, { chunks: [], bytesBuffered: 0, bytesNeeded: lengthBytes });
    return connect.call(this);
  };
  prototype.processData = function (this: Connection, bytes: Buffer): void {
    try {
      processData.call(this, bytes);
    } catch (error) {
      this.socket?.destroy(new Error('the broker sent what is not an answer', { cause: error }));
    }
  };
}
