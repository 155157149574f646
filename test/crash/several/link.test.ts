import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Link, startLink } from './link.ts';

let server: Server;
let link: Link;
let received: string;
let client: Socket;
let answers: string;

/** A server that answers every byte with the same byte. */
beforeEach(async () => {
  received = '';
  answers = '';
  server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.on('data', (data) => {
      received += data;
      socket.write(data);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  link = await startLink((server.address() as AddressInfo).port);
  client = await connected();
});
afterEach(async () => {
  client.destroy();
  await link.close();
  server.close();
});

async function connected(): Promise<Socket> {
  const socket = connect(link.port, '127.0.0.1');
  socket
    .on('error', () => {})
    .on('data', (data) => {
      answers += data;
    });
  await once(socket, 'connect');
  return socket;
}

const both = () => [received, answers];

it('passes everything on, in order, and what waited when it is healed', async () => {
  client.write('a');
  await expect.poll(both).toEqual(['a', 'a']);
  link.disturb({ fault: 'hole' });
  client.write('b');
  const late = await connected();
  late.write('x');
  link.disturb({ fault: 'slow', delayMs: 50 });
  client.write('c');
  link.heal();
  client.write('d');
  await expect.poll(() => [received.replace('x', ''), answers.replace('x', '')]).toEqual(['abcd', 'abcd']);
  late.destroy();
});

it('blocks one direction: the engine gets nothing, or the gateway does', async () => {
  link.disturb({ fault: 'deaf' });
  client.write('a');
  await expect.poll(both).toEqual(['a', '']);
  link.disturb({ fault: 'mute' });
  client.write('b');
  await expect.poll(both).toEqual(['a', 'a']);
  link.heal();
  await expect.poll(both).toEqual(['ab', 'ab']);
});

it('breaks connections, refuses new ones, and serves again when it is healed', async () => {
  client.write('a');
  await expect.poll(both).toEqual(['a', 'a']);
  link.disturb({ fault: 'cut' });
  await once(client, 'close');
  await once(await connected(), 'close');
  link.heal();
  const again = await connected();
  again.write('b');
  await expect.poll(both).toEqual(['ab', 'ab']);
  link.disturb({ fault: 'hole' });
  link.heal(true);
  await once(again, 'close');
});
