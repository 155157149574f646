import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Connections } from '../../../src/wiring/workers/connections.ts';

const clients: Socket[] = [];
let connections: Connections;

afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
  connections.close();
});

async function open(): Promise<Socket> {
  const client = connect(connections.port, '127.0.0.1');
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
    connections = await Connections.listen({ host: '127.0.0.1', port: 0 });
    const [one, two] = [worker(1), worker(2)];
    connections.workerIsFree(one);
    connections.workerIsFree(two);
    const ports = [(await open()).localPort, (await open()).localPort, (await open()).localPort];
    await expect.poll(() => [one.passed, two.passed]).toEqual([[ports[0]], [ports[1]]]);
    connections.workerIsFree(two);
    expect(two.passed).toEqual([ports[1], ports[2]]);
    expect(one.passed).toEqual([ports[0]]);
  });

  it('wait while no worker runs', async () => {
    connections = await Connections.listen({ host: '127.0.0.1', port: 0 });
    const client = await open();
    const gone = worker(1, () => false);
    const there = worker(2);
    connections.workerIsFree(gone);
    connections.workerIsFree(there);
    await expect.poll(() => there.passed).toEqual([client.localPort]);
  });

  it('end with the worker that has not confirmed them, and no longer go to it', async () => {
    connections = await Connections.listen({ host: '127.0.0.1', port: 0 });
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
