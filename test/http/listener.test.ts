/** The sockets at which clients reach a process. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { freePort } from '../../bench/servers/launch.ts';
import { openListener, type PortListener } from '../../src/http/listener.ts';

const host = '127.0.0.1';
const open: { close(): unknown }[] = [];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(open.splice(0).map((one) => one.close()));
});

async function listen(port: number, take: (socket: Socket) => void = (socket) => socket.destroy(), at = host) {
  const listener = await openListener({ host: at, port }, take);
  open.push(listener);
  return listener;
}

function client(port: number): Socket {
  const socket = connect(port, host).on('error', () => {});
  sockets.push(socket);
  return socket;
}

async function occupy(port: number): Promise<Server> {
  const server = createServer().listen(port, host);
  open.push(server);
  await once(server, 'listening');
  return server;
}

describe('a listener', () => {
  it.skipIf(process.platform !== 'linux')('accepts many connections in one turn of the event loop', async () => {
    let turn = 0;
    let accepted = 0;
    let most = 0;
    const port = await freePort();
    const inTurn = { turn: -1, count: 0 };
    await listen(port, (socket) => {
      sockets.push(socket.on('error', () => {}));
      accepted++;
      if (inTurn.turn !== turn) Object.assign(inTurn, { turn, count: 0 });
      most = Math.max(most, ++inTurn.count);
    });
    await Promise.all(Array.from({ length: 200 }, () => once(client(port), 'connect')));
    while (accepted < 200) {
      turn++;
      // as a turn with many exchanges
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      await new Promise((resolve) => setImmediate(resolve));
      if (turn > 5000) break;
    }
    expect(accepted).toBe(200);
    expect(most).toBeGreaterThan(8);
  });

  it('is refused a port of another listener or of any other server', async () => {
    const [one, two] = [await freePort(), await freePort()];
    await listen(one);
    await expect(listen(one)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await expect(occupy(one)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    await occupy(two);
    await expect(listen(two)).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('may have the port of a listener at another address', async () => {
    const port = await freePort();
    await listen(port);
    let served = 0;
    await listen(port, () => served++, '127.0.0.2');
    const other = connect(port, '127.0.0.2').on('error', () => {});
    sockets.push(other);
    await expect.poll(() => served).toBe(1);
  });

  it('frees its port at once, for itself and others, and leaves open connections alone', async () => {
    const port = await freePort();
    const taken: Socket[] = [];
    const first = await listen(port, (socket) => taken.push(socket));
    const there = client(port);
    await expect.poll(() => taken.length).toBe(1);
    await first.close();
    const again = await listen(port);
    await again.close();
    await occupy(port);
    taken[0]?.write('still here');
    expect(String(await once(there, 'data'))).toBe('still here');
  });

  it('passes connections to whoever receives them now', async () => {
    const by: string[] = [];
    const listener: PortListener = await listen(0, () => by.push('first'));
    client(listener.port);
    await expect.poll(() => by).toEqual(['first']);
    listener.receive(() => by.push('second'));
    client(listener.port);
    await expect.poll(() => by).toEqual(['first', 'second']);
    expect(listener.url).toBe(`http://${host}:${listener.port}`);
  });
});
