import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Connections } from '../../../src/wiring/workers/connections.ts';

const clients: Socket[] = [];
/** Local ports of the clients whose connections no worker took. */
const unserved: (number | undefined)[] = [];
let connections: Connections;

async function listen(patienceMs = 60_000): Promise<void> {
  const take = ({ remotePort }: Socket) => unserved.push(remotePort);
  const address = { host: '127.0.0.1', port: 0 };
  connections = await Connections.listen(address, { unserved: { take, close: () => {} }, patienceMs });
}

afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
  connections.close();
  unserved.splice(0);
});

async function open(): Promise<Socket> {
  const client = connect(Number(new URL(connections.url).port), '127.0.0.1');
  client.on('error', () => {});
  clients.push(client);
  await once(client, 'connect');
  return client;
}

function worker(number: number, isThere = () => true) {
  const passed: number[] = [];
  const pass = ({ remotePort = 0 }: Socket) => {
    if (isThere()) passed.push(remotePort);
    return isThere();
  };
  return { number, passed, pass };
}

describe('the connections of a service', () => {
  it('go to the workers in turn, as each one confirms', async () => {
    await listen();
    const [one, two] = [worker(1), worker(2)];
    connections.workerIsFree(one);
    connections.workerIsFree(two);
    const ports = [(await open()).localPort, (await open()).localPort, (await open()).localPort];
    await expect.poll(() => [one.passed, two.passed]).toEqual([[ports[0]], [ports[1]]]);
    connections.workerIsFree(two);
    expect(two.passed).toEqual([ports[1], ports[2]]);
    expect(one.passed).toEqual([ports[0]]);
  });

  it('are not passed to a worker that has ended', async () => {
    await listen();
    const gone = worker(1, () => false);
    const there = worker(2);
    connections.workerIsFree(gone);
    connections.workerIsFree(there);
    const client = await open();
    await expect.poll(() => there.passed).toEqual([client.localPort]);
  });

  it('are answered elsewhere while no worker serves, also those that wait when the last one ends', async () => {
    await listen();
    const first = await open();
    await expect.poll(() => unserved).toEqual([first.localPort]);
    const one = worker(1);
    connections.workerIsFree(one);
    const clients = [await open(), await open()];
    await expect.poll(() => one.passed).toEqual([clients[0]?.localPort]);
    connections.workerEnded(1);
    await expect.poll(() => unserved).toEqual([first.localPort, clients[1]?.localPort]);
  });

  it('are answered elsewhere when no worker takes them in time', async () => {
    await listen(50);
    const one = worker(1);
    connections.workerIsFree(one);
    const clients = [await open(), await open(), await open()];
    await expect.poll(() => unserved).toEqual(clients.slice(1).map(({ localPort }) => localPort));
    expect(one.passed).toEqual([clients[0]?.localPort]);
  });

  it('end with the worker that has not confirmed them, and no longer go to it', async () => {
    await listen();
    const [one, two] = [worker(1), worker(2)];
    connections.workerIsFree(one);
    const lost = await open();
    await expect.poll(() => one.passed).toHaveLength(1);
    const closed = once(lost, 'close');
    connections.workerEnded(1);
    await closed;
    connections.workerIsFree(two);
    await open();
    await expect.poll(() => two.passed).toHaveLength(1);
    expect(one.passed).toHaveLength(1);
  });
});
