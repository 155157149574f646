/** A gateway with few file descriptors and many connections. */
import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { platform } from 'node:os';
import { afterAll, expect, it } from 'vitest';
import { main } from '../support/main-program.ts';
import { ask, killAll, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const limit = 110;

it.runIf(platform() === 'linux')(
  'connections do not take the last descriptors; the start warns, and requests are served afterwards',
  async () => {
    const { url, process: gateway } = await serve({
      dataDir: folder.path,
      command: ['sh', '-c', `ulimit -n ${limit}; exec "$0" "$1" serve`, process.execPath, main],
    });
    expect(gateway.stdout + gateway.stderr).toMatch(/may open only 110 files \(ulimit -n\), fewer than 1024/);
    const port = Number(new URL(url).port);
    const sockets: Socket[] = [];
    const closed: Promise<unknown>[] = [];
    const ended = Promise.withResolvers<void>();
    for (let n = 0; n < 150; n++) {
      const socket = connect(port, '127.0.0.1')
        .on('error', () => {})
        .resume();
      sockets.push(socket);
      closed.push(new Promise((resolve) => socket.once('close', resolve)));
      socket.once('close', () => ended.resolve());
    }
    // the gateway has accepted them all: the last ones were closed at once
    await closed.at(-1);
    await ended.promise;
    const open = readdirSync(`/proc/${gateway.pid}/fd`).length;
    expect(open).toBeLessThan(limit - 16);
    expect(sockets.some((socket) => !socket.destroyed)).toBe(true);
    for (const socket of sockets) socket.destroy();
    await Promise.all(closed);
    await expect.poll(async () => (await ask(url, '/health/ready').catch(() => undefined))?.status).toBe(200);
    expect((await ask(url, '/admin/auth-keys', { json: { name: 'k' } })).status).toBeLessThan(300);
  },
  60_000,
);
