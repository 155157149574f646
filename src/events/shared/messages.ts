/**
 * What the processes that share a log send to each other. All numbers are little-endian. Every message is
 *
 *      0  u32  bytes of all of it    4  u8  kind    5  content
 *
 * From a worker:
 *   hello   JSON `Hello`. The first message.
 *   append  see replicated/append-frame.ts
 *   ping    nothing
 * From the primary:
 *   welcome JSON `Welcome`. The answer to `hello`, before everything else.
 *   end     f64 position, f64 segment, f64 bytes, u32 moves: a `VisibleEnd`
 *   done    f64 number of the append, f64 position, u16 number of writes, f64 revision of each
 *   refused f64 number of the append, JSON `RefusedAppend`
 *   status  JSON `PrimaryStatus`
 *   pong    nothing
 */

import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { VisibleEnd } from '../embedded/embedded-log.ts';
import { formatPosition, parsePosition, type StreamName } from '../event.ts';
import {
  type Appended,
  EventIdReused,
  type ExpectedRevision,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  WrongExpectedRevision,
} from '../log.ts';
import { frameAppends, framedBytes } from '../replicated/append-frame.ts';
import type { SequencedAppend } from '../replicated/engine.ts';

export const protocolVersion = 2;
export const messageHeaderBytes = 5;

export const messageKinds = {
  hello: 1,
  append: 2,
  ping: 3,
  welcome: 11,
  end: 12,
  done: 13,
  refused: 14,
  status: 15,
  pong: 16,
} as const;

/** Largest append that is sent. */
export const maxAppendBytes = 128 * 1024 * 1024;
/** Largest message of another kind, by its sender. */
export const maxOtherBytes = { worker: 4 * 1024, primary: 64 * 1024 * 1024 };

export interface Hello {
  readonly version: number;
  /** Which opened log it is, over all its connections. */
  readonly client: string;
  /** It waits for the outcome of appends of its former connection. */
  readonly hasUnresolved: boolean;
}

export interface Welcome {
  readonly version: number;
  readonly mark: number;
  readonly capabilities: LogCapabilities;
  readonly status: PrimaryStatus;
  readonly end: VisibleEnd;
  /** For segments: the position of the first event, then pairs of a position and its offset. */
  readonly places: readonly (readonly number[])[];
}

/** The status of the primary's log but what the worker knows itself. */
export type PrimaryStatus = Omit<LogStatus, 'head' | 'durableHead' | 'subscriptions'>;

export type RefusedAppend =
  | { readonly error: 'wrong revision'; readonly stream: string; readonly expected: string; readonly actual?: string }
  | { readonly error: 'unavailable'; readonly reason: string; readonly outcome: 'none' | 'unknown' }
  | { readonly error: 'id reused'; readonly id: string }
  | { readonly error: 'other'; readonly message: string };

/** The other side does not follow the protocol. */
export class ProtocolError extends Error {}

export function jsonMessage(kind: number, content: object): Buffer {
  const text = JSON.stringify(content);
  const message = Buffer.allocUnsafe(messageHeaderBytes + Buffer.byteLength(text));
  message.write(text, messageHeaderBytes);
  return withHeader(message, kind);
}

/** A message for each of them. */
export function appendMessages(appends: readonly SequencedAppend[]): Buffer {
  const messages = frameAppends(appends, messageHeaderBytes);
  let at = 0;
  for (const append of appends) {
    const bytes = messageHeaderBytes + framedBytes(append);
    writeHeader(messages, at, bytes, messageKinds.append);
    at += bytes;
  }
  return messages;
}

export function emptyMessage(kind: number): Buffer {
  return withHeader(Buffer.allocUnsafe(messageHeaderBytes), kind);
}

/** Fills the room for the header. */
function withHeader(message: Buffer, kind: number): Buffer {
  writeHeader(message, 0, message.length, kind);
  return message;
}

function writeHeader(target: Buffer, at: number, bytes: number, kind: number): void {
  target.writeUInt32LE(bytes, at);
  target.writeUInt8(kind, at + 4);
}

/** @throws ProtocolError when the content is no JSON object */
export function jsonOf(buffer: Buffer, start: number, end: number): Record<string, unknown> {
  try {
    const content: unknown = JSON.parse(buffer.toString('utf8', start, end));
    if (typeof content === 'object' && content !== null) return content as Record<string, unknown>;
  } catch {
    // thrown below
  }
  throw new ProtocolError('a message is no JSON object');
}

export function endMessage({ position, segment, bytes, moves }: VisibleEnd): Buffer {
  const message = Buffer.allocUnsafe(messageHeaderBytes + 28);
  message.writeDoubleLE(position, 5);
  message.writeDoubleLE(segment, 13);
  message.writeDoubleLE(bytes, 21);
  message.writeUInt32LE(moves, 29);
  return withHeader(message, messageKinds.end);
}

export function readEnd(buffer: Buffer, start: number): VisibleEnd {
  return {
    position: buffer.readDoubleLE(start),
    segment: buffer.readDoubleLE(start + 8),
    bytes: buffer.readDoubleLE(start + 16),
    moves: buffer.readUInt32LE(start + 24),
  };
}

type Received = (kind: number, buffer: Buffer, start: number, end: number) => void;

/** Calls back for each whole message of a connection. */
export class MessageSplitter {
  readonly #sender: 'worker' | 'primary';
  readonly #received: Received;
  #parts: Buffer[] = [];
  #bytes = 0;
  /** Bytes that are needed before anything can be done; more than there are. */
  #needed = messageHeaderBytes;

  /** @param received gets the content; the bytes are not changed later */
  constructor(sender: 'worker' | 'primary', received: Received) {
    this.#sender = sender;
    this.#received = received;
  }

  /** @throws ProtocolError; what the callback throws */
  add(chunk: Buffer): void {
    let buffer = chunk;
    if (this.#bytes > 0) {
      this.#parts.push(chunk);
      this.#bytes += chunk.length;
      if (this.#bytes < this.#needed) return;
      buffer = Buffer.concat(this.#parts, this.#bytes);
      this.#parts = [];
      this.#bytes = 0;
    }
    let at = 0;
    let needed = messageHeaderBytes;
    while (at + messageHeaderBytes <= buffer.length) {
      const bytes = buffer.readUInt32LE(at);
      const kind = buffer.readUInt8(at + 4);
      const max = kind === messageKinds.append ? maxAppendBytes : maxOtherBytes[this.#sender];
      if (bytes < messageHeaderBytes || bytes > max) {
        throw new ProtocolError(`a message of kind ${kind} claims to have ${bytes} bytes`);
      }
      needed = bytes;
      if (at + bytes > buffer.length) break;
      this.#received(kind, buffer, at + messageHeaderBytes, at + bytes);
      at += bytes;
      needed = messageHeaderBytes;
    }
    if (at === buffer.length) return;
    this.#parts = [at === 0 ? buffer : Buffer.from(buffer.subarray(at))];
    this.#bytes = buffer.length - at;
    this.#needed = needed;
  }
}

// What became of an append, as messages.

export function doneMessage(number: number, { position, revisions }: Appended): Buffer {
  const message = Buffer.allocUnsafe(messageHeaderBytes + 18 + revisions.length * 8);
  message.writeDoubleLE(number, 5);
  message.writeDoubleLE(parsePosition(position), 13);
  message.writeUInt16LE(revisions.length, 21);
  let next = 23;
  for (const revision of revisions) next = message.writeDoubleLE(Number(revision), next);
  return withHeader(message, messageKinds.done);
}

export function refusedMessage(number: number, error: unknown): Buffer {
  const text = JSON.stringify(refusalOf(error));
  const message = Buffer.allocUnsafe(messageHeaderBytes + 8 + Buffer.byteLength(text));
  message.writeDoubleLE(number, 5);
  message.write(text, 13);
  return withHeader(message, messageKinds.refused);
}

export function readDone(buffer: Buffer, start: number): Appended {
  const revisions: bigint[] = [];
  const end = start + 18 + buffer.readUInt16LE(start + 16) * 8;
  for (let at = start + 18; at < end; at += 8) revisions.push(BigInt(buffer.readDoubleLE(at)));
  return { position: formatPosition(buffer.readDoubleLE(start + 8)), revisions };
}

function refusalOf(error: unknown): RefusedAppend {
  if (error instanceof WrongExpectedRevision) {
    const { stream, expected, actual } = error;
    const isAt = actual === undefined ? {} : { actual: String(actual) };
    return { error: 'wrong revision', stream, expected: String(expected), ...isAt };
  }
  if (error instanceof LogUnavailable) {
    return { error: 'unavailable', reason: error.reason, outcome: error.outcome };
  }
  if (error instanceof EventIdReused) return { error: 'id reused', id: error.id };
  return { error: 'other', message: error instanceof Error ? error.message : String(error) };
}

export function errorOfRefusal(refusal: RefusedAppend): Error {
  switch (refusal.error) {
    case 'wrong revision': {
      const { stream, expected, actual } = refusal;
      const isAt = actual === undefined ? undefined : BigInt(actual);
      return new WrongExpectedRevision(stream as StreamName, expectationOf(expected), isAt);
    }
    case 'unavailable':
      return new LogUnavailable(refusal.reason, refusal.outcome);
    case 'id reused':
      return new EventIdReused(refusal.id);
    case 'other':
      return new Error(refusal.message);
  }
}

function expectationOf(text: string): ExpectedRevision {
  return text === 'any' || text === 'noStream' || text === 'exists' ? text : BigInt(text);
}

/** The path of a Unix domain socket has at most 107 bytes on Linux and 103 on macOS. */
const maxBytes = 103;

interface ShortPath {
  readonly path: string;
  /** To be called when the socket is bound or connected: the path is not valid afterwards. */
  release(): void;
}

/** A path of the socket that the operating system accepts: through a link in a private folder when its own is too long. */
export function shortSocketPath(socketPath: string): ShortPath {
  if (Buffer.byteLength(socketPath) <= maxBytes) return { path: socketPath, release: () => {} };
  // a long TMPDIR may be why the path is long
  const parent = Buffer.byteLength(tmpdir()) <= 40 ? tmpdir() : '/tmp';
  const folder = mkdtempSync(path.join(parent, 'chancery-'));
  const release = () => rmSync(folder, { recursive: true, force: true });
  const link = path.join(folder, 'd');
  symlinkSync(path.dirname(path.resolve(socketPath)), link);
  const short = path.join(link, path.basename(socketPath));
  if (Buffer.byteLength(short) <= maxBytes) return { path: short, release };
  release();
  throw new Error(`the name of the socket ${path.basename(socketPath)} is too long`);
}
