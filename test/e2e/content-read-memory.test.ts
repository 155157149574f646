/** Clients that read no answer: recorded content that they request never takes much memory, and others are answered. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { someOf } from '../support/seed.ts';
import { ask, killAll, MASTER_KEY, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';

const MIB = 1024 * 1024;
/** Their bodies together have 2,400 MiB. Half of that is the limit: the peak was 860 to 1,050 MiB with 30, 40 and 60 connections. */
const CONNECTIONS = 120;
const folder = temporaryFolder();
const sockets: Socket[] = [];
let gateway: ServedGateway;
let id: string;

describe.skipIf(process.platform !== 'linux')('reads of large recorded bodies by clients that do not read', () => {
  beforeAll(async () => {
    gateway = await serve({ dataDir: folder.path });
    const content = 'x'.repeat(20 * MIB);
    const answer = await ask(gateway.url, '/v1/chat/completions', {
      json: { model: 'demo/simulated-small', messages: [{ role: 'user', content }] },
    });
    await answer.arrayBuffer();
    id = answer.headers.get('x-exchange-id') ?? '';
  });
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    killAll();
    folder.remove();
  });

  const reads: readonly (readonly [string, () => string])[] = [
    ['events', () => `/admin/audit/events?log_id=${id}&revision=0`],
    ['detail', () => `/admin/audit/detail?log_id=${id}`],
    ['provider request', () => `/admin/audit/provider-request?log_id=${id}&attempt=1`],
    ['live events', () => '/admin/live/logs?view=events&cursor=0'],
  ];

  it.each(someOf(reads))(
    '%s: memory is bounded, and others are answered',
    { timeout: 120_000 },
    async (_name, path) => {
      let most = 0;
      const watch = setInterval(() => {
        most = Math.max(most, residentBytes(gateway.process.pid));
      }, 50);
      const opened = Array.from({ length: CONNECTIONS }, () => unreadRequest(gateway.url, path()));
      try {
        for (let round = 0; round < 10; round++) {
          const begun = performance.now();
          expect((await ask(gateway.url, '/health')).status).toBe(200);
          expect(performance.now() - begun).toBeLessThan(5_000);
        }
        // Another administrator gets the same content in the meantime, or the advice to try again.
        const status = (await ask(gateway.url, `/admin/audit/events?log_id=${id}&limit=1`)).status;
        expect([200, 503]).toContain(status);
        expect(most).toBeLessThan(1_200 * MIB);
      } finally {
        clearInterval(watch);
        for (const socket of opened) socket.destroy();
      }
      await expect
        .poll(async () => (await ask(gateway.url, `/admin/audit/events?log_id=${id}&limit=1`)).status)
        .toBe(200);
    },
  );
});

/** A request whose answer stays in the buffers of the connection. */
function unreadRequest(url: string, path: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${MASTER_KEY}\r\n\r\n`);
  sockets.push(socket);
  return socket;
}

function residentBytes(pid: number): number {
  const pages = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1];
  return Number(pages) * 4096;
}
