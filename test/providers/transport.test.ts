import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { brotliCompressSync, createGzip, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { ProviderFailure, type ProviderReply } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { createTransport, type Transport, type TransportOptions } from '../../src/providers/transport.ts';
import { type Answer, deadOrigin, json, startRawUpstream, startUpstream, type Upstream } from './upstream.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

const limit = (ms: number) => ({ ms, setting: 'SOME_TIMEOUT' });

function transportTo(origin: string, options: Partial<TransportOptions> = {}): Transport {
  const transport = createTransport({ provider: 'local', origin, proxyOf: withoutProxy, ...options });
  closing.push(() => transport.close());
  return transport;
}

async function upstream(answer: Answer): Promise<Upstream> {
  const started = await startUpstream(answer);
  closing.push(() => started.close());
  return started;
}

async function rawUpstream(answer: (socket: Socket) => void): Promise<string> {
  const started = await startRawUpstream(answer);
  closing.push(() => started.close());
  return started.origin;
}

const patient = (): AbortSignal => new AbortController().signal;
const get = (path = '/', signal = patient()) => ({ method: 'GET', path, headers: [], signal });

async function failureOf(promise: Promise<unknown>): Promise<ProviderFailure> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ProviderFailure)) throw new Error(`expected a ProviderFailure, got ${String(error)}`);
  return error;
}

/** Resolves once the server saw its side of the connection closed. */
function closed(socket: Socket): Promise<unknown> {
  return socket.closed ? Promise.resolve() : new Promise((resolve) => socket.once('close', resolve));
}

describe('an answer', () => {
  test('is the status, the headers and the bytes', async () => {
    const { origin, requests } = await upstream((_request, response) => {
      response.writeHead(201, [
        ['X-Kind', 'a'],
        ['X-Kind', 'b'],
        ['Content-Type', 'text/plain'],
      ]);
      response.end('hello');
    });
    const reply = await transportTo(origin).send({
      method: 'POST',
      path: '/v1/x?y=1',
      headers: ['authorization', 'Bearer k', 'x-request-id', 'r1'],
      body: Buffer.from('{}'),
      signal: patient(),
    });
    expect(reply.status).toBe(201);
    expect(reply.headers['x-kind']).toBe('a, b');
    expect((await reply.body.bytes(100)).toString()).toBe('hello');
    expect(requests[0]).toMatchObject({
      method: 'POST',
      path: '/v1/x?y=1',
      body: '{}',
      headers: { authorization: 'Bearer k', 'x-request-id': 'r1', 'content-length': '2' },
    });
  });

  test('comes piece by piece, in order and without loss', async () => {
    const { origin } = await upstream((_request, response) => {
      let left = 50;
      const more = (): void => {
        if (left-- === 0) response.end();
        else response.write(`piece ${left};`, () => setImmediate(more));
      };
      more();
    });
    const reply = await transportTo(origin).send(get());
    const pieces: string[] = [];
    await reply.body.pieces((piece) => {
      pieces.push(piece.toString());
    });
    const expected = Array.from({ length: 50 }, (_, index) => `piece ${49 - index};`).join('');
    expect(pieces.join('')).toBe(expected);
    expect(pieces.length).toBeGreaterThan(1);
  });

  test('that came whole before it was read is still there', async () => {
    const { origin } = await upstream((_request, response) => response.end('x'.repeat(300_000)));
    const reply = await transportTo(origin).send(get());
    await new Promise(setImmediate);
    expect((await reply.body.bytes(1_000_000)).length).toBe(300_000);
  });

  test('with an empty body is empty in both ways to read it', async () => {
    const { origin } = await upstream((_request, response) => response.writeHead(204).end());
    const transport = transportTo(origin);
    expect((await (await transport.send(get())).body.bytes(0)).length).toBe(0);
    const pieces: Buffer[] = [];
    await (await transport.send(get())).body.pieces((piece) => {
      pieces.push(piece);
    });
    expect(pieces).toEqual([]);
  });

  test('can be read once only', async () => {
    const { origin } = await upstream((_request, response) => response.end('once'));
    const { body } = await transportTo(origin).send(get());
    await body.bytes(10);
    await expect(body.bytes(10)).rejects.toThrow('once only');
  });

  test('that redirects is handed over unchanged', async () => {
    const { origin, requests } = await upstream((_request, response) =>
      response.writeHead(302, { location: '/elsewhere' }).end(),
    );
    const reply = await transportTo(origin).send(get());
    expect(reply.status).toBe(302);
    await reply.body.bytes(10);
    expect(requests.length).toBe(1);
  });

  test('after early hints is the final one', async () => {
    const origin = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n');
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
    });
    const reply = await transportTo(origin).send(get());
    expect(reply.status).toBe(200);
    expect((await reply.body.bytes(10)).toString()).toBe('ok');
  });

  test('without a length ends with its connection', async () => {
    const origin = await rawUpstream((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nuntil the end'));
    const reply = await transportTo(origin).send(get());
    expect((await reply.body.bytes(100)).toString()).toBe('until the end');
  });

  test('reuses its connection for a later call', async () => {
    const { origin, connections } = await upstream((_request, response) => response.end('ok'));
    const transport = transportTo(origin);
    // A connection is free again one turn after its answer, so calls back to back alternate between two.
    for (let call = 0; call < 20; call++) await (await transport.send(get())).body.bytes(10);
    expect(connections()).toBeLessThanOrEqual(2);
  });
});

describe('a compressed answer', () => {
  const plain = Buffer.from(JSON.stringify({ text: 'ä'.repeat(5000) }));
  const encodings: [string, Buffer][] = [
    ['gzip', gzipSync(plain)],
    ['deflate', deflateSync(plain)],
    ['br', brotliCompressSync(plain)],
    ['zstd', zstdCompressSync(plain)],
  ];

  test.each(encodings)('in %s is decoded although the request did not accept it', async (encoding, bytes) => {
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': encoding, 'content-length': bytes.length }).end(bytes),
    );
    const reply = await transportTo(origin).send(get());
    expect(reply.headers).not.toHaveProperty('content-encoding');
    expect(reply.headers).not.toHaveProperty('content-length');
    expect(await reply.body.bytes(100_000)).toEqual(plain);
  });

  test('in a zstd frame with a window of more than 8 MiB fails', async () => {
    const block = Buffer.alloc(3);
    block.writeUIntLE((plain.length << 3) | 1, 0, 3);
    const frame = Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88]), block, plain]);
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'zstd' }).end(frame),
    );
    const reply = await transportTo(origin).send(get());
    await expect(reply.body.bytes(100_000)).rejects.toThrow();
  });

  test('is handed over event by event when the provider flushes', async () => {
    const { origin } = await upstream((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
      const zip = createGzip();
      zip.pipe(response);
      zip.write('data: 1\n\n');
      zip.flush(() => {
        response.req.once('close', () => zip.destroy());
        first.then(() => zip.end('data: 2\n\n'));
      });
    });
    let seenFirst = (): void => {};
    const first = new Promise<void>((resolve) => {
      seenFirst = resolve;
    });
    const reply = await transportTo(origin).send(get());
    const seen: string[] = [];
    await reply.body.pieces((piece) => {
      seen.push(piece.toString());
      seenFirst();
    });
    expect(seen.join('')).toBe('data: 1\n\ndata: 2\n\n');
    expect(seen[0]).toBe('data: 1\n\n');
  });

  test('that blows up beyond the limit is refused', async () => {
    const bomb = gzipSync(Buffer.alloc(20_000_000));
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb),
    );
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(100_000))).kind).toBe('too_large');
  });

  test('that cannot be decoded breaks', async () => {
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end('this is not gzip'),
    );
    const reply = await transportTo(origin).send(get());
    expect(await failureOf(reply.body.bytes(100))).toMatchObject({ kind: 'broken' });
  });

  test('that is cut in the middle breaks', async () => {
    const bytes = gzipSync(Buffer.from('x'.repeat(10_000)));
    const { origin } = await upstream((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': bytes.length });
      response.write(bytes.subarray(0, 12), () => response.destroy());
    });
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(100_000))).kind).toBe('broken');
  });

  test('that is cut in the middle gives its reader what came before', async () => {
    let cut = (): void => {};
    const { origin } = await upstream((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      const zip = createGzip();
      zip.pipe(response);
      zip.write('data: 1\n\n');
      zip.flush();
      cut = () => response.destroy();
    });
    const reply = await transportTo(origin).send(get());
    const seen: string[] = [];
    const reading = reply.body.pieces(async (piece) => {
      cut();
      seen.push(piece.toString());
    });
    expect((await failureOf(reading)).kind).toBe('broken');
    expect(seen).toEqual(['data: 1\n\n']);
  });

  test('that ends before its compressed data does breaks', async () => {
    const bytes = gzipSync(plain);
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bytes.subarray(0, -12)),
    );
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(100_000))).kind).toBe('broken');
  });

  test('without a byte is empty', async () => {
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(),
    );
    const reply = await transportTo(origin).send(get());
    expect((await reply.body.bytes(100)).length).toBe(0);
  });

  test.each(['compress', 'gzip, compress'])('in %s, which is not supported, stays as it is', async (encoding) => {
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': encoding }).end('encoded'),
    );
    const reply = await transportTo(origin).send(get());
    expect(reply.headers['content-encoding']).toBe(encoding);
    expect((await reply.body.bytes(100)).toString()).toBe('encoded');
  });

  test('counts the bytes that arrived, not the decoded ones', async () => {
    const bytes = gzipSync(plain);
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bytes),
    );
    const reply = await transportTo(origin).send(get());
    await reply.body.bytes(100_000);
    expect(reply.body.arrived).toBe(bytes.length);
  });

  test('that grows a thousandfold is decoded only as fast as it is read', async () => {
    // Large beside the memory that was read and is not collected yet.
    const size = 256 * 1024 * 1024;
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(size))),
    );
    const reply = await transportTo(origin).send(get());
    let read = 0;
    let pieces = 0;
    let most = 0;
    const before = process.memoryUsage().arrayBuffers;
    await reply.body.pieces(async (piece) => {
      read += piece.length;
      pieces += 1;
      if (pieces % 64 !== 0) return;
      await new Promise(setImmediate);
      most = Math.max(most, process.memoryUsage().arrayBuffers - before);
    });
    expect(read).toBe(size);
    expect(most).toBeLessThan(size / 2);
  });

  test('throws the error of its reader', async () => {
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('data')),
    );
    const reply = await transportTo(origin).send(get());
    await expect(
      reply.body.pieces(() => {
        throw new Error('the log is full');
      }),
    ).rejects.toThrow('the log is full');
  });

  test('to HEAD has no body to decode', async () => {
    const { origin } = await upstream((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': 100 }).end(),
    );
    const reply = await transportTo(origin).send({ ...get(), method: 'HEAD' });
    expect(reply.headers['content-encoding']).toBe('gzip');
    expect((await reply.body.bytes(10)).length).toBe(0);
  });
});

/** A server that writes an answer as fast as it is taken, and detects when it is stuck on a full socket. */
function flood(total: number, { body = Buffer.alloc(total, 'x'), headers = {} } = {}) {
  let sent = 0;
  let tell = (): void => {};
  const stuck = new Promise<void>((resolve) => {
    tell = resolve;
  });
  const answer: Answer = (_request, response) => {
    response.writeHead(200, { 'content-length': body.length, ...headers });
    const more = (): void => {
      while (sent < body.length) {
        const piece = body.subarray(sent, sent + 64 * 1024);
        sent += piece.length;
        if (response.write(piece)) continue;
        // No drain for a while: the reader's pause has come all the way here.
        const timer = setTimeout(tell, 300);
        response.once('drain', () => {
          clearTimeout(timer);
          more();
        });
        return;
      }
      response.end();
    };
    more();
  };
  return { answer, stuck, sent: () => sent };
}

describe('a slow reader', () => {
  const total = 32 * 1024 * 1024;
  test.each([
    ['an answer', {}],
    ['a compressed answer', { body: gzipSync(randomBytes(total)), headers: { 'content-encoding': 'gzip' } }],
  ])('slows the provider of %s down: while it is busy, the server cannot get rid of its bytes', async (_, content) => {
    const { answer, stuck, sent } = flood(total, content);
    const { origin } = await upstream(answer);
    const reply = await transportTo(origin).send(get());
    let release = (): void => {};
    const busy = new Promise<void>((resolve) => {
      release = resolve;
    });
    let read = 0;
    const reading = reply.body.pieces((bytes) => {
      read += bytes.length;
      return read === bytes.length ? busy : undefined;
    });
    await stuck;
    // What is under way fits into the kernel's buffers; most of the answer has not been written.
    expect(sent()).toBeLessThan(total / 2);
    expect(read).toBeLessThanOrEqual(64 * 1024);
    release();
    await reading;
    expect(read).toBe(total);
  });

  test('that has not begun to read slows the provider down too, and then gets everything', async () => {
    const { answer, stuck, sent } = flood(total);
    const { origin } = await upstream(answer);
    const reply = await transportTo(origin).send(get());
    await stuck;
    expect(sent()).toBeLessThan(total / 2);
    expect((await reply.body.bytes(total)).length).toBe(total);
  });

  test('gets everything although the provider closed in the meantime', async () => {
    const { origin } = await upstream((_request, response) => {
      response.writeHead(200, { connection: 'close' });
      response.write('first;');
      setImmediate(() => response.end('second;'));
    });
    const reply = await transportTo(origin).send(get());
    const seen: string[] = [];
    await reply.body.pieces(async (piece) => {
      await new Promise(setImmediate);
      seen.push(piece.toString());
      await new Promise(setImmediate);
    });
    expect(seen.join('')).toBe('first;second;');
  });

  test('gets the pieces that came before a break, then the break', async () => {
    const origin = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfirst;');
      setImmediate(() => socket.write('second;', () => setImmediate(() => socket.destroy())));
    });
    const reply = await transportTo(origin).send(get());
    const seen: string[] = [];
    let busy = false;
    const reading = reply.body.pieces(async (piece) => {
      busy = true;
      seen.push(piece.toString());
      // A time: the reader is busy for longer than the next piece needs.
      await new Promise((resolve) => setTimeout(resolve, 50));
      busy = false;
    });
    expect((await failureOf(reading)).kind).toBe('broken');
    expect(busy).toBe(false);
    expect(seen.join('')).toBe('first;second;');
  });

  test('that throws ends the call at once', async () => {
    let socket: Socket | undefined;
    const { origin } = await upstream((_request, response) => {
      socket = response.req.socket;
      response.write('one');
    });
    const reply = await transportTo(origin).send(get());
    const reading = reply.body.pieces(() => Promise.reject(new Error('disk full')));
    await expect(reading).rejects.toThrow('disk full');
    if (socket === undefined) throw new Error('not asked');
    await closed(socket);
  });
});

describe('cancelling', () => {
  test('by the signal destroys the call while it waits for headers', async () => {
    let requestBody = (_socket: Socket): void => {};
    const wasAsked = new Promise<Socket>((resolve) => {
      requestBody = resolve;
    });
    const { origin } = await upstream(({ path }, response) => path === '/hang' && requestBody(response.req.socket));
    const abort = new AbortController();
    const sending = transportTo(origin).send(get('/hang', abort.signal));
    const socket = await wasAsked;
    abort.abort();
    expect((await failureOf(sending)).kind).toBe('aborted');
    await closed(socket);
  });

  test('by the signal destroys the call in the middle of its answer', async () => {
    let socket: Socket | undefined;
    const { origin } = await upstream((_request, response) => {
      socket = response.req.socket;
      response.write('one');
    });
    const abort = new AbortController();
    const reply = await transportTo(origin).send(get('/', abort.signal));
    const reading = reply.body.pieces(() => abort.abort());
    expect((await failureOf(reading)).kind).toBe('aborted');
    if (socket === undefined) throw new Error('not asked');
    await closed(socket);
  });

  test('before the call is made makes none', async () => {
    const { origin, connections } = await upstream((_request, response) => response.end());
    const transport = transportTo(origin);
    expect((await failureOf(transport.send(get('/', AbortSignal.abort())))).kind).toBe('aborted');
    await (await transport.send(get())).body.bytes(10);
    expect(connections()).toBe(1);
  });

  test('while waiting for a free connection rejects at once', async () => {
    let answer = (): void => {};
    const { origin, requests } = await upstream((_request, response) => {
      answer = () => response.end('ok');
    });
    const transport = transportTo(origin, { connections: 1 });
    const first = transport.send(get('/first'));
    const abort = new AbortController();
    const second = transport.send(get('/second', abort.signal));
    abort.abort();
    expect((await failureOf(second)).kind).toBe('aborted');
    while (requests.length === 0) await new Promise(setImmediate);
    answer();
    await (await first).body.bytes(10);
    const third = transport.send(get('/third'));
    while (requests.length === 1) await new Promise(setImmediate);
    answer();
    await (await third).body.bytes(10);
    expect(requests.map(({ path }) => path)).toEqual(['/first', '/third']);
  });

  test('an answer that is over is harmless', async () => {
    const { origin, connections } = await upstream((_request, response) => response.end('ok'));
    const transport = transportTo(origin);
    for (let call = 0; call < 20; call++) {
      const abort = new AbortController();
      const reply = await transport.send(get('/', abort.signal));
      await reply.body.bytes(10);
      reply.body.cancel();
      abort.abort();
    }
    expect(connections()).toBeLessThanOrEqual(2);
  });

  test('stops a reader that still gets pieces which came in time', async () => {
    const origin = await rawUpstream((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'));
    const reply = await transportTo(origin).send(get());
    const reading = reply.body.pieces(() => new Promise(() => {}));
    await new Promise(setImmediate);
    reply.body.cancel();
    expect((await failureOf(reading)).kind).toBe('aborted');
  });

  test('an unread answer frees its connection', async () => {
    let socket: Socket | undefined;
    const { origin } = await upstream((_request, response) => {
      socket = response.req.socket;
      response.write('x'.repeat(1_000_000));
    });
    const reply = await transportTo(origin).send(get());
    reply.body.cancel();
    if (socket === undefined) throw new Error('not asked');
    await closed(socket);
    expect((await failureOf(reply.body.bytes(10))).kind).toBe('aborted');
  });
});

describe('a kept connection that the provider resets', () => {
  test('before anything was sent is replaced, and the request is sent once', async () => {
    const sockets: Socket[] = [];
    const { origin, requests } = await upstream((_request, response) => {
      if (response.socket !== null) sockets.push(response.socket);
      response.end('hello');
    });
    const transport = transportTo(origin);
    const post = { ...get(), method: 'POST', body: Buffer.from('{}') };
    await (await transport.send(post)).body.bytes(100);
    for (let call = 2; call <= 6; call++) {
      // From a timer, so that the reset is read before the event loop comes to sending the request.
      const reply = await new Promise<ProviderReply>((resolve, reject) => {
        setTimeout(() => {
          sockets.at(-1)?.resetAndDestroy();
          transport.send(post).then(resolve, reject);
        }, 0);
      });
      expect((await reply.body.bytes(100)).toString()).toBe('hello');
      expect(requests).toHaveLength(call);
    }
    expect(new Set(sockets).size).toBe(6);
  });

  test('after the request was sent ends the call: the provider may have begun', async () => {
    let calls = 0;
    const { origin, requests } = await upstream((_request, response) => {
      calls += 1;
      if (calls === 1) response.end('hello');
      else response.socket?.resetAndDestroy();
    });
    const transport = transportTo(origin);
    const post = { ...get(), method: 'POST', body: Buffer.from('{}') };
    await (await transport.send(post)).body.bytes(100);
    expect((await failureOf(transport.send(post))).kind).toBe('broken');
    expect(requests).toHaveLength(2);
  });
});

describe('a failure', () => {
  test('to connect is unreachable, and its message holds no address', async () => {
    const origin = await deadOrigin();
    const failure = await failureOf(transportTo(origin).send(get()));
    expect(failure).toMatchObject({ kind: 'unreachable', provider: 'local' });
    expect(failure.message).toBe('it could not be reached (connection refused)');
  });

  test('to find the host is unreachable', async () => {
    const failure = await failureOf(transportTo('http://no-such-host.invalid').send(get()));
    expect(failure.kind).toBe('unreachable');
  });

  test('to answer in time is a timeout', async () => {
    const { origin } = await upstream(() => {});
    const failure = await failureOf(transportTo(origin, { timeouts: { headers: limit(30) } }).send(get()));
    expect(failure.kind).toBe('timeout');
    expect(failure.message).toBe(
      'it did not answer within 0.03 s (SOME_TIMEOUT), and no byte of its answer had arrived',
    );
  });

  test('to get a connection in time is a timeout', async () => {
    const { origin } = await upstream(() => {});
    const transport = transportTo(origin, { connections: 1, timeouts: { headers: limit(60) } });
    const kinds = await Promise.all([transport.send(get('/a')), transport.send(get('/b'))].map(failureOf));
    expect(kinds.map(({ kind }) => kind)).toEqual(['timeout', 'timeout']);
  });

  test('to continue an answer is idle, also after the first bytes', async () => {
    const { origin } = await upstream((_request, response) => response.write('data: 1\n\n'));
    const reply = await transportTo(origin, { timeouts: { idle: limit(50) } }).send(get());
    const seen: string[] = [];
    const failure = await failureOf(
      reply.body.pieces((piece) => {
        seen.push(piece.toString());
      }),
    );
    expect(failure.kind).toBe('idle');
    expect(failure.message).toBe('it sent nothing for 0.05 s (SOME_TIMEOUT), after 9 bytes of its answer had arrived');
    expect(seen).toEqual(['data: 1\n\n']);
  });

  test('to begin its answer behind the headers states that no byte of it had arrived', async () => {
    const { origin } = await upstream((_request, response) => response.flushHeaders());
    const reply = await transportTo(origin, { timeouts: { idle: limit(50) } }).send(get());
    expect((await failureOf(reply.body.bytes(1000))).message).toBe(
      'it sent nothing for 0.05 s (SOME_TIMEOUT), and no byte of its answer had arrived after the headers',
    );
  });

  test('to continue does not end a call whose reader limits the whole answer', async () => {
    const { origin } = await upstream((_request, response) => {
      response.write('a');
      setTimeout(() => response.end('b'), 200);
    });
    const transport = transportTo(origin, { timeouts: { idle: limit(50) } });
    const reply = await transport.send({ ...get(), mayIdle: true });
    expect((await reply.body.bytes(1000)).toString()).toBe('ab');
  });

  test('is not a slow reader: its pause does not count as idleness', async () => {
    const { origin } = await upstream((_request, response) => {
      response.write('a'.repeat(200_000));
      setTimeout(() => response.end('b'), 20);
    });
    const reply = await transportTo(origin, { timeouts: { idle: limit(60) } }).send(get());
    let bytes = 0;
    let slow = true;
    await reply.body.pieces((piece) => {
      bytes += piece.length;
      if (!slow) return undefined;
      slow = false;
      // A time: longer than the idle limit.
      return new Promise((resolve) => setTimeout(resolve, 200));
    });
    expect(bytes).toBe(200_001);
  });

  test('in the middle of an announced length is broken', async () => {
    const origin = await rawUpstream((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort'));
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(1000))).kind).toBe('broken');
  });

  test('in the middle of a chunked answer is broken', async () => {
    const origin = await rawUpstream((socket) =>
      socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n'),
    );
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(1000))).kind).toBe('broken');
  });

  test('by a reset before any answer is broken: the provider may have begun', async () => {
    const origin = await rawUpstream((socket) => socket.resetAndDestroy());
    expect((await failureOf(transportTo(origin).send(get()))).kind).toBe('broken');
  });

  test('to speak HTTP is broken', async () => {
    const origin = await rawUpstream((socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'));
    const failure = await failureOf(transportTo(origin).send(get()));
    expect(failure.kind).toBe('broken');
    expect(failure.message).toBe('the connection was interrupted (it did not speak HTTP)');
  });

  test('to stop sending headers is too large', async () => {
    const origin = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      socket.write(`x-big: ${'x'.repeat(70_000)}\r\n\r\n`);
    });
    expect((await failureOf(transportTo(origin).send(get()))).kind).toBe('too_large');
  });

  test('of the size limit comes as soon as the length is announced', async () => {
    const { origin } = await upstream((_request, response) => {
      response.writeHead(200, { 'content-length': 1_000_000 });
      response.write('x');
    });
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(1000))).kind).toBe('too_large');
  });

  test('of the size limit comes as soon as it is passed', async () => {
    const { origin } = await upstream((_request, response) => {
      const more = (): void => {
        if (!response.destroyed) response.write('x'.repeat(10_000), () => setImmediate(more));
      };
      more();
    });
    const reply = await transportTo(origin).send(get());
    expect((await failureOf(reply.body.bytes(1_000_000))).kind).toBe('too_large');
  });

  test('leaves the other calls alone', async () => {
    const { origin } = await upstream(({ path }, response) =>
      path === '/bad' ? response.destroy() : json(response, 200, { ok: true }),
    );
    const transport = transportTo(origin);
    const calls = ['/good', '/bad', '/good', '/bad', '/good'].map(async (path) => {
      const reply = await transport.send(get(path));
      return (await reply.body.bytes(100)).toString();
    });
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
  });

  test('ends running calls when the transport closes', async () => {
    const { origin, requests } = await upstream(() => {});
    const transport = transportTo(origin);
    const sending = transport.send(get());
    const outcome = failureOf(sending);
    while (requests.length === 0) await new Promise(setImmediate);
    await transport.close();
    expect((await outcome).kind).toBe('broken');
    expect((await failureOf(transport.send(get()))).message).toContain('the gateway is stopping');
  });
});

describe('a call that may no longer begin when it has a connection', () => {
  test('sends nothing, and fails as unreachable', async () => {
    const { origin, requests } = await upstream((_request, response) => void response.end('hello'));
    const transport = transportTo(origin);
    let mayBegin = true;
    const sent = transport.send({ ...get(), mayBegin: () => mayBegin });
    // The connection is not open yet.
    mayBegin = false;
    const failure = await failureOf(sent);
    expect(failure.kind).toBe('unreachable');
    expect(failure.message).toContain('not sure to be the only one');
    expect(requests).toHaveLength(0);

    mayBegin = true;
    const reply = await transport.send({ ...get(), mayBegin: () => mayBegin });
    expect((await reply.body.bytes(100)).toString()).toBe('hello');
    const reused = await failureOf(transport.send({ ...get(), mayBegin: () => false }));
    expect(reused.kind).toBe('unreachable');
    expect(requests).toHaveLength(1);
  });
});
