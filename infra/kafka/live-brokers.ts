/** The question whether a Kafka broker is ready, without a client library. */
import { connect } from 'node:net';

const METADATA = 3;
const VERSION = 1;

/**
 * How many brokers the one at this address knows as ready, itself included.
 * @returns 0 as well when it cannot be reached or does not answer within the time
 */
export function liveBrokers(port: number, timeoutMs: number): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const socket = connect({ host: '127.0.0.1', port });
  let answer = Buffer.alloc(0);
  socket.setTimeout(timeoutMs, () => socket.destroy());
  socket.on('connect', () => socket.write(metadataRequest()));
  socket.on('data', (piece) => {
    answer = Buffer.concat([answer, piece]);
    // Length, correlation id, then the array of brokers.
    if (answer.length < 12) return;
    resolve(answer.readInt32BE(8));
    socket.destroy();
  });
  socket.on('error', () => socket.destroy());
  socket.on('close', () => resolve(0));
  return promise;
}

/** Kafka's protocol: Metadata, version 1, of no topic. */
function metadataRequest(): Buffer {
  const request = Buffer.alloc(4 + 14);
  request.writeInt32BE(request.length - 4, 0);
  request.writeInt16BE(METADATA, 4);
  request.writeInt16BE(VERSION, 6);
  request.writeInt32BE(1, 8);
  // No client id.
  request.writeInt16BE(-1, 12);
  request.writeInt32BE(0, 14);
  return request;
}
