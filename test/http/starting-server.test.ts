/** What a gateway answers while it waits for the engine of its log, and how its own server takes over the port. */
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import pino from 'pino';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type NewEvent, streamName } from '../../src/events/event.ts';
import type { EventLog, SubscribeOptions } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { listenWhileStarting, type StartingState } from '../../src/http/starting-server.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { answerWhileStarting } from '../../src/wiring/http/starting.ts';
import { bareServer } from '../support/bare-server.ts';
import { json } from '../support/with-gateway.ts';

const host = '127.0.0.1';

async function start(state: () => StartingState = () => ({ reason: 'log: opening' })) {
  const starting = await listenWhileStarting({ host, port: 0, maxHeaderBytes: 16_384, state });
  onTestFinished(() => starting.close());
  return { starting, url: `http://${host}:${starting.listener.port}` };
}

describe('a gateway that starts', () => {
  it('is alive and not ready, with the reason and the position so far', async () => {
    let state: StartingState = { reason: 'engine unreachable' };
    const { url } = await start(() => state);
    const health = await fetch(`${url}/health`);
    expect([health.status, await json(health)]).toEqual([200, { status: 'ok' }]);
    const ready = await fetch(`${url}/health/ready?x=1`);
    expect(ready.status).toBe(503);
    expect(ready.headers.get('connection')).toBe('close');
    const notReady = { status: 'not_ready', components: { storage: 'down' } };
    expect(await json(ready)).toEqual({ ...notReady, starting: { reason: 'engine unreachable' } });
    state = { reason: 'log: catching up', position: '0000000000000042' };
    const later = await json(await fetch(`${url}/health/ready`));
    expect(later).toEqual({ ...notReady, starting: state });
    expect((await fetch(`${url}/health/ready`, { method: 'HEAD' })).status).toBe(503);
  });

  it.each([
    ['POST', '/v1/chat/completions', { error: { code: 'log_unavailable', type: 'internal_error' } }],
    ['POST', '/v1/messages', { type: 'error', error: { type: 'api_error' } }],
    ['GET', '/v1/models', { error: { code: 'log_unavailable' } }],
    ['GET', '/admin/dashboard', { error: { code: 'log_unavailable' } }],
    ['POST', '/health', { error: { code: 'log_unavailable' } }],
  ])('answers %s %s with 503 and Retry-After, in the format of its clients', async (method, path, body) => {
    const { url } = await start();
    const headers = { 'x-request-id': 'of-the-client', authorization: 'Bearer anything' };
    const answer = await fetch(url + path, { method, headers, body: method === 'GET' ? null : '{"model":"x"}' });
    expect(answer.status).toBe(503);
    expect(answer.headers.get('retry-after')).toBe('1');
    expect(answer.headers.get('x-request-id')).toBe('of-the-client');
    expect(await json(answer)).toMatchObject(body);
  });

  it('answers a client that sends a large body', async () => {
    const { starting } = await start();
    const socket = connect(starting.listener.port, host);
    socket.on('error', () => {});
    socket.write(`POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: ${64 * 1024 * 1024}\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 503 /);
  });

  it('fails when the port is in use, and frees it when it is closed', async () => {
    const { starting } = await start();
    const again = {
      host,
      port: starting.listener.port,
      maxHeaderBytes: 16_384,
      state: () => ({ reason: 'starting' }) as const,
    };
    await expect(listenWhileStarting(again)).rejects.toMatchObject({ code: 'EADDRINUSE' });
    const idle = connect(starting.listener.port, host);
    idle.on('error', () => {});
    await once(idle, 'connect');
    starting.close();
    await once(idle, 'close');
    const other = createServer().listen(starting.listener.port, host);
    onTestFinished(() => void other.close());
    await once(other, 'listening');
  });
});

describe('a gateway that starts at the host name localhost', () => {
  it('answers at each of its addresses, and frees the port for the server that follows', async () => {
    const state = () => ({ reason: 'log: opening' }) as const;
    const starting = await listenWhileStarting({ host: 'localhost', port: 0, maxHeaderBytes: 16_384, state });
    onTestFinished(() => starting.close());
    const urls = (await lookup('localhost', { all: true })).map(({ address, family }) =>
      family === 6 ? `http://[${address}]:${starting.listener.port}` : `http://${address}:${starting.listener.port}`,
    );
    for (const url of urls) expect((await fetch(`${url}/health/ready`)).status).toBe(503);
    const open = connect(starting.listener.port, 'localhost');
    await once(open, 'connect');
    const app = bareServer();
    app.get('/v1/models', () => ({ served: true }));
    onTestFinished(() => app.close());
    await app.ready();
    app.server.emit('listening');
    starting.listener.receive((socket) => app.server.emit('connection', socket));
    onTestFinished(() => starting.listener.close());
    for (const url of urls) expect((await fetch(`${url}/v1/models`)).status).toBe(200);
    open.write('GET /health/ready HTTP/1.1\r\nhost: x\r\n\r\n');
    expect(await text(open)).toMatch(/^HTTP\/1\.1 503 /);
  });
});

describe('the server of the gateway', () => {
  it('takes over the port without refusing a connection, and frees it when it is closed', async () => {
    const { starting, url } = await start();
    const app = bareServer();
    app.get('/v1/models', () => ({ served: true }));
    await app.ready();
    const statuses: number[] = [];
    const failures: unknown[] = [];
    let isOver = false;
    const client = async () => {
      while (!isOver)
        await fetch(`${url}/v1/models`).then(
          (one) => one.text().then(() => statuses.push(one.status)),
          (e) => failures.push(e),
        );
    };
    const clients = Array.from({ length: 8 }, client);
    await expect.poll(() => statuses.length).toBeGreaterThan(20);
    app.server.emit('listening');
    starting.listener.receive((socket) => app.server.emit('connection', socket));
    await expect.poll(() => statuses.filter((status) => status === 200).length).toBeGreaterThan(20);
    isOver = true;
    await Promise.all(clients);
    expect(failures).toEqual([]);
    expect(new Set(statuses)).toEqual(new Set([503, 200]));
    const first = statuses.indexOf(200);
    // answers that were begun before the change
    expect(statuses.slice(first + clients.length)).not.toContain(503);
    starting.close();
    expect((await fetch(`${url}/v1/models`)).status).toBe(200);
    await starting.listener.close();
    app.server.closeAllConnections();
    await app.close();
    await expect(fetch(`${url}/v1/models`)).rejects.toThrow();
  });
});

describe('a gateway whose read models read a long log', () => {
  it('answers after a second with how far they are, writes it to the output, and hands over its port', async () => {
    const log = new MemoryLog();
    const event: NewEvent = { type: 'a.one', schema: 1, data: {}, context: { actor: 'system' } };
    for (let n = 0; n < 4; n++) {
      await log.append([{ stream: streamName('s', '1'), events: [event], expectedRevision: 'any' }]);
    }
    const half = Promise.withResolvers<void>();
    const slow: EventLog = Object.create(log, {
      status: { value: () => log.status() },
      subscribe: {
        async *value(options: SubscribeOptions) {
          for await (const one of log.subscribe(options)) {
            if (one.position === '0000000000000003') await half.promise;
            yield one;
          }
        },
      },
      ...Object.fromEntries(
        (['readAll', 'readStream', 'head'] as const).map((name) => [name, { value: log[name].bind(log) }]),
      ),
    });
    const runner = createProjectionRunner(slow);
    const running = runner.run({ name: 'n', version: 1, filter: {}, initial: () => 0, apply: (count) => count + 1 });
    const lines: string[] = [];
    const told = Promise.withResolvers<void>();
    const write = (line: string) => {
      lines.push(line);
      if (lines.length === 2) told.resolve();
    };
    const logger = pino({}, { write });
    const server = { host, port: 0, maxHeaderBytes: 16_384 };
    const starting = await answerWhileStarting({ log: { engine: undefined }, server }, logger);
    onTestFinished(() => starting.close());
    starting.readsLog(slow, runner);
    await told.promise;
    expect(lines.join('')).toContain(
      '1 read models read the log: at position 0000000000000002 of 0000000000000004 (50 %)',
    );
    const port = /answers on port (\d+) with 503 until the read models have read the log/.exec(lines.join(''))?.[1];
    const ready = await fetch(`http://${host}:${port}/health/ready`);
    expect([ready.status, await json(ready)]).toEqual([
      503,
      expect.objectContaining({ starting: { reason: 'read models: catching up', position: '0000000000000002' } }),
    ]);
    half.resolve();
    await running.caughtUp;
    expect((await starting.server())?.listener.port).toBe(Number(port));
    await runner.close();
  });
});
