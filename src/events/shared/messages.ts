/**
 * What the processes that share a log send to each other. All numbers are little-endian. Every message is
 *
 *      0  u32  bytes of all of it    4  u8  kind    5  content
 *
 * From a worker:
 *   hello   JSON `Hello`. The first message.
 *   append  see append-message.ts
 *   ping    nothing
 * From the primary:
 *   welcome JSON `Welcome`. The answer to `hello`, before everything else.
 *   end     f64 position, f64 segment, f64 bytes, u32 moves: a `VisibleEnd`
 *   done    f64 number of the append, f64 position, u16 number of writes, f64 revision of each
 *   refused f64 number of the append, JSON `RefusedAppend`
 *   status  JSON `PrimaryStatus`
 *   pong    nothing
 */
import type { VisibleEnd } from '../embedded/embedded-log.ts';
import type { LogCapabilities, LogStatus } from '../log.ts';

export const protocolVersion = 1;
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
  writeMessageHeader(message, 0, message.length, kind);
  message.write(text, messageHeaderBytes);
  return message;
}

export function emptyMessage(kind: number): Buffer {
  const message = Buffer.allocUnsafe(messageHeaderBytes);
  writeMessageHeader(message, 0, messageHeaderBytes, kind);
  return message;
}

export function writeMessageHeader(target: Buffer, at: number, bytes: number, kind: number): void {
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

export const endBytes = messageHeaderBytes + 28;

/** @returns its end */
export function writeEnd(target: Buffer, at: number, { position, segment, bytes, moves }: VisibleEnd): number {
  writeMessageHeader(target, at, endBytes, messageKinds.end);
  target.writeDoubleLE(position, at + 5);
  target.writeDoubleLE(segment, at + 13);
  target.writeDoubleLE(bytes, at + 21);
  target.writeUInt32LE(moves, at + 29);
  return at + endBytes;
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
