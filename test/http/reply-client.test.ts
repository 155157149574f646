import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { expect, it } from 'vitest';
import { ReplyClient } from '../../src/http/open-exchanges.ts';

it('has one listener and one timer for all writes that wait for the same room', async () => {
  const requested = Promise.withResolvers<ServerResponse>();
  const server = createServer((_request, response) => requested.resolve(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
  const response = await requested.promise;
  const before = response.listenerCount('drain');
  const client = new ReplyClient(response, 10_000, { idHeader: undefined, errorBody: () => ({}) });
  client.begin(200, {});
  const waiting: Promise<void>[] = [];
  // The client reads nothing yet.
  for (let piece = 0; piece < 50; piece++) {
    const room = client.write(Buffer.alloc(256 * 1024));
    if (room !== undefined) waiting.push(room);
  }
  expect(waiting.length).toBeGreaterThan(20);
  expect(response.listenerCount('drain') - before).toBe(1);
  socket.resume();
  await Promise.all(waiting);
  expect(response.listenerCount('drain') - before).toBe(0);
  socket.destroy();
  server.close();
});
