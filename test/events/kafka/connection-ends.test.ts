/** Connections of kafkajs whose other side breaks off, or sends what is no answer. */
import { createRequire } from 'node:module';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
// Before the modules of kafkajs, as in the gateway.
import '../../../src/events/kafka/kafkajs.ts';

interface Connection {
  connect(): Promise<unknown>;
  disconnect(): Promise<unknown>;
  send(request: object): Promise<Buffer>;
}

const load = createRequire(import.meta.url);
const KafkaConnection = load('kafkajs/src/network/connection.js') as new (options: object) => Connection;
const Encoder = load('kafkajs/src/protocol/encoder.js') as new () => object;
const silent = { debug() {}, info() {}, warn() {}, error() {}, namespace: () => silent };
const apiVersions = { apiKey: 18, apiName: 'ApiVersions', apiVersion: 0, encode: async () => new Encoder() };
const asIs = { decode: async (payload: Buffer) => payload, parse: async (payload: Buffer) => payload };

/** Of the first request on a connection: its id, then the text. */
function answer(text: string, correlationId = 0): Buffer {
  const bytes = Buffer.alloc(8 + text.length);
  bytes.writeInt32BE(4 + text.length);
  bytes.writeInt32BE(correlationId, 4);
  bytes.write(text, 8);
  return bytes;
}

describe('a connection of kafkajs', () => {
  let server: Server;
  let connection: Connection;
  /** One for each connection. */
  let answers: ((socket: Socket, request: Buffer) => void)[];

  beforeEach(async () => {
    answers = [];
    server = createServer((socket) => {
      const next = answers.shift();
      socket.on('error', () => {}).on('data', (request: Buffer) => next?.(socket, request));
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const { port } = server.address() as AddressInfo;
    connection = new KafkaConnection({
      ...{ host: '127.0.0.1', port, logger: silent, requestTimeout: 60_000, connectionTimeout: 5_000 },
      socketFactory: ({ onConnect }: { onConnect: () => void }) => connect({ host: '127.0.0.1', port }, onConnect),
    });
  });
  afterEach(async () => {
    await connection.disconnect();
    server.close();
  });

  const ask = async () => {
    await connection.connect();
    return connection.send({ request: apiVersions, response: asIs });
  };
  const reply = (text: string) => (socket: Socket, request: Buffer) =>
    void socket.write(answer(text, request.readInt32BE(8)));

  it('that broke within an answer takes the next answer as it is', async () => {
    answers.push((socket) => socket.end(answer('long').subarray(0, 10)), reply('whole'));
    await expect(ask()).rejects.toThrow('Closed connection');
    await expect.poll(ask).toEqual(Buffer.from('whole'));
  });

  it('that receives no answer of Kafka refuses the request, and connects again', async () => {
    answers.push((socket) => socket.write(Buffer.from([0, 0, 0, 1, 7])), reply('whole'));
    await expect(ask()).rejects.toThrow('the broker sent what is not an answer');
    await expect.poll(ask).toEqual(Buffer.from('whole'));
  });
});
