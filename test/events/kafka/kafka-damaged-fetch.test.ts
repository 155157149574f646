/** Bytes that are damaged between the broker and the gateway, while Kafka's copy is intact. */
import { randomUUID } from 'node:crypto';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { kafkaOrSkip } from '../../support/kafka-for-tests.ts';
import { Replica } from '../../support/replicas.ts';

const shared = await kafkaOrSkip();
const thing = streamName('thing', 'a');
const marker = 'the body that is damaged on its way';

/** Passes on what it receives, with its own port in place of the broker's, and damages the marker as often as the test sets. */
class DamagingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #broker: { readonly host: string; readonly port: number };
  damages = 0;
  damaged = 0;

  constructor(address: string) {
    const [host = '', port] = address.split(':');
    this.#broker = { host, port: Number(port) };
    this.#server = createServer((socket) => this.#pass(socket));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, this.#broker.host, resolve));
    return `${this.#broker.host}:${this.#port}`;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  get #port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  #pass(client: Socket): void {
    const broker = connect(this.#broker);
    for (const [from, to] of [
      [client, broker],
      [broker, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
    }
    client.pipe(broker);
    broker.on('data', (bytes) => client.write(this.#changed(bytes)));
  }

  #changed(bytes: Buffer): Buffer {
    const named = (port: number) => {
      const number = Buffer.alloc(4);
      number.writeInt32BE(port);
      return Buffer.concat([Buffer.from(this.#broker.host), number]);
    };
    for (let at = bytes.indexOf(named(this.#broker.port)); at >= 0; at = bytes.indexOf(named(this.#broker.port))) {
      named(this.#port).copy(bytes, at);
    }
    const at = bytes.indexOf(marker);
    if (at >= 0 && this.damages > 0) {
      this.damages--;
      this.damaged++;
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
    }
    return bytes;
  }
}

describe.skipIf(shared === undefined)('bytes that are damaged on their way from Kafka', () => {
  it('are read again by a log that is open, and by one that is being opened', async () => {
    const proxy = new DamagingProxy(shared?.[0] ?? '');
    const address = await proxy.listen();
    const topic = `log-${randomUUID()}`;
    const replica = await Replica.open(() => createKafkaEngine({ url: `kafka://${address}/${topic}` }));
    await replica.log.append([write(thing, 'any', noted({ n: 0 }))]);
    proxy.damages = 2;
    const body = Buffer.from(marker);
    expect(await replica.log.append([write(thing, 0n, noted({ n: 1 }, { body }))])).toMatchObject({ revisions: [1n] });
    expect(proxy.damaged).toBe(2);
    await expect.poll(() => replica.log.status().state).toBe('ok');
    proxy.damages = 2;
    await replica.reopen({ without: 'its folder' });
    expect(proxy.damaged).toBe(4);
    const events = await collect(replica.log.readAll());
    expect(events).toHaveLength(2);
    expect(Buffer.from(events[1]?.body ?? '').toString()).toBe(marker);
    await replica.dispose();
    proxy.close();
  }, 60_000);
});
