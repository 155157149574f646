/** The socket of the primary: who may connect, and what a connection can do to others. */
import { existsSync, lstatSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PreparedAppend } from '../../src/events/embedded/append-batch.ts';
import { START, streamName } from '../../src/events/event.ts';
import type { StreamWrite } from '../../src/events/log.ts';
import { NEW_LOG } from '../../src/events/replicated/engine.ts';
import {
  appendMessages,
  emptyMessage,
  jsonMessage,
  messageHeaderBytes,
  messageKinds,
  protocolVersion,
} from '../../src/events/shared/messages.ts';
import { serveSharedLog } from '../../src/events/shared/serve-shared-log.ts';
import { SharedLog } from '../../src/events/shared/shared-log.ts';
import { collect, noted, write } from '../contract/event-log.ts';
import { ServedFolder } from '../support/shared-logs.ts';

const a = streamName('thing', 'a');
const b = streamName('thing', 'b');

async function serve(): Promise<{ served: ServedFolder; log: SharedLog }> {
  const served = await ServedFolder.open();
  const log = await served.openWorker();
  onTestFinished(async () => {
    await log.close();
    await served.dispose();
  });
  return { served, log };
}

const hello = jsonMessage(messageKinds.hello, { version: protocolVersion, client: 'test', hasUnresolved: false });

function appendMessage(writes: StreamWrite[]): Buffer {
  const seen = { position: 0, check: 0 };
  return appendMessages([{ log: NEW_LOG, writer: NEW_LOG, number: 1, seen, ...new PreparedAppend(writes, 1_000) }]);
}

/** Sends the bytes; resolves when the primary has ended the connection. */
function sendUntilEnded(socketPath: string, ...parts: Buffer[]): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.on('error', () => {}).on('close', () => resolve());
    socket.resume();
    for (const part of parts) socket.write(part);
  });
}

function changed(message: Buffer, change: (bytes: Buffer) => void): Buffer {
  const bytes = Buffer.from(message);
  change(bytes);
  return bytes;
}

/** An append with a change, and a checksum of what it has then. @param change offsets count from the beginning of the append */
function changedAppend(message: Buffer, change: (append: Buffer) => void): Buffer {
  return changed(message, (bytes) => {
    const append = bytes.subarray(messageHeaderBytes);
    change(append);
    append.writeUInt32LE(crc32(append.subarray(8)), 4);
  });
}

/** Where the first write of an append begins, and its records, when it has one write to `a`. */
const firstWrite = 56;
const records = firstWrite + 15 + a.length;

describe('a connection', () => {
  const whole = appendMessage([write(a, 'any', noted())]);
  const twoStreams = appendMessage([write(a, 'any', noted()), write(b, 'any', noted())]);
  const twoEvents = appendMessage([write(a, 'any', noted(), noted())]);
  const rubbish: [string, Buffer[]][] = [
    ['text', [Buffer.from('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n')]],
    ['a length of 4 GB', [hello, changed(whole, (bytes) => bytes.writeUInt32LE(0xffff_ffff, 0))]],
    ['a length of 0', [hello, changed(whole, (bytes) => bytes.writeUInt32LE(0, 0))]],
    ['a hello of 5 KB', [jsonMessage(messageKinds.hello, { client: 'x'.repeat(5_000) })]],
    ['an append before its hello', [whole]],
    ['two hellos', [hello, hello]],
    ['another version', [jsonMessage(messageKinds.hello, { version: 99, client: 'test', hasUnresolved: false })]],
    ['a hello that is no JSON', [changed(hello, (bytes) => bytes.fill(0x20, 5))]],
    ['an unknown kind', [hello, emptyMessage(77)]],
    ['an append that is cut short', [hello, changed(whole.subarray(0, 12), (bytes) => bytes.writeUInt32LE(12, 0))]],
    ['a damaged append', [hello, changed(whole, (bytes) => bytes.writeUInt8(0, bytes.length - 1))]],
    ['an append with an unknown stage', [hello, changedAppend(whole, (append) => append.writeUInt8(9, 9))]],
    [
      'an append with more writes than it has',
      [hello, changedAppend(whole, (append) => append.writeUInt16LE(9_999, 10))],
    ],
    [
      'an append with an unknown expectation',
      [hello, changedAppend(whole, (append) => append.writeUInt8(9, firstWrite))],
    ],
    [
      'an append with more events than it has',
      [hello, changedAppend(whole, (append) => append.writeUInt32LE(2, firstWrite + 9))],
    ],
    [
      'an append with fewer events than it has',
      [hello, changedAppend(twoEvents, (append) => append.writeUInt32LE(1, firstWrite + 9))],
    ],
    [
      'an append with fewer writes than it has',
      [hello, changedAppend(twoStreams, (append) => append.writeUInt16LE(1, 10))],
    ],
    [
      'a write with events of two streams',
      [hello, changedAppend(twoEvents, (append) => append.write('b', append.lastIndexOf('thing-a') + 6))],
    ],
    [
      'a write with events of another stream',
      [hello, changedAppend(whole, (append) => append.write('b', append.lastIndexOf('thing-a') + 6))],
    ],
    ['an event of another length', [hello, changedAppend(whole, (append) => append.writeUInt32LE(9, records))]],
    [
      'an event whose parts do not add up',
      [hello, changedAppend(whole, (append) => append.writeUInt32LE(1, records + 8))],
    ],
  ];

  it.each(rubbish)('that sends %s is ended, and changes nothing', async (_, parts) => {
    const { served, log } = await serve();
    await sendUntilEnded(served.socketPath, ...parts);
    expect(served.warnings).toHaveLength(1);
    expect(await log.head()).toBe(START);
    await log.append([write(a, 'noStream', noted({ n: 1 }))]);
    expect(await collect(log.readAll())).toHaveLength(1);
  });

  it('that ends in the middle of an append has appended nothing', async () => {
    const { served, log } = await serve();
    const socket = await new Promise<Socket>((resolve) => {
      const connected = connect(served.socketPath, () => resolve(connected));
    });
    socket.resume();
    socket.write(Buffer.concat([hello, whole.subarray(0, whole.length - 3)]));
    await log.append([write(b, 'noStream', noted())]);
    await new Promise((resolve) => socket.on('close', resolve).destroy());
    await log.append([write(b, 0n, noted())]);
    expect(await collect(log.readStream(a))).toEqual([]);
    expect(served.warnings).toEqual([]);
  });

  it('may send its messages in pieces of any size', async () => {
    const { served, log } = await serve();
    const socket = connect(served.socketPath);
    const answered = new Promise<Buffer>((resolve) => {
      const received: Buffer[] = [];
      socket.on('data', (chunk) => {
        received.push(chunk);
        const all = Buffer.concat(received);
        // the last message is the answer of the append
        if (all.length > 31 && all.readUInt8(all.length - 31 + 4) === messageKinds.done) resolve(all);
      });
    });
    for (const byte of Buffer.concat([hello, whole])) {
      await new Promise<void>((resolve) => socket.write(Buffer.from([byte]), () => resolve()));
    }
    await answered;
    socket.destroy();
    await log.append([]);
    expect(await collect(log.readStream(a))).toHaveLength(1);
  });
});

describe('the socket', () => {
  it('is open to this user only', async () => {
    const { served } = await serve();
    expect(lstatSync(served.socketPath).mode & 0o777).toBe(0o600);
  });

  it('replaces one that a killed process has left, and no other file; it is removed at the end', async () => {
    const served = await ServedFolder.open();
    onTestFinished(() => served.dispose());
    const left = path.join(served.folder, 'left.sock');
    const server = createServer().listen(left);
    await new Promise((resolve) => server.once('listening', resolve));
    const again = await serveSharedLog({ log: served.log, socketPath: left });
    await again.close();
    expect(existsSync(left)).toBe(false);
    await new Promise((resolve) => server.close(resolve));
    const file = path.join(served.folder, 'file');
    writeFileSync(file, 'kept');
    await expect(serveSharedLog({ log: served.log, socketPath: file })).rejects.toThrow(/is no socket/);
  });

  it('may have a path that is longer than the operating system accepts', async () => {
    const served = await ServedFolder.open();
    onTestFinished(() => served.dispose());
    const folder = path.join(served.folder, 'x'.repeat(120));
    mkdirSync(folder);
    const socketPath = path.join(folder, 'log.sock');
    const server = await serveSharedLog({ log: served.log, socketPath });
    expect(lstatSync(socketPath).mode & 0o777).toBe(0o600);
    const log = await SharedLog.open({ socketPath, dir: served.dir });
    await log.append([write(a, 'noStream', noted())]);
    await log.close();
    await server.close();
    expect(existsSync(socketPath)).toBe(false);
  });
});

describe('SharedLog.open', () => {
  it('waits for the primary until its signal is aborted', async () => {
    const { served } = await serve();
    const socketPath = path.join(served.folder, 'later.sock');
    const abort = new AbortController();
    const warned: string[] = [];
    const warn = (message: string) => {
      warned.push(message);
      abort.abort(new Error('enough'));
    };
    const opening = SharedLog.open({ socketPath, dir: served.dir, warn, signal: abort.signal });
    await expect(opening).rejects.toThrow('enough');
    expect(warned).toHaveLength(1);
    const waiting = SharedLog.open({ socketPath, dir: served.dir });
    const server = await serveSharedLog({ log: served.log, socketPath });
    const log = await waiting;
    expect(await log.head()).toBe(START);
    await log.close();
    await server.close();
  });
});
