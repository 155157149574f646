/** What became of an append, as messages. */
import { formatPosition, parsePosition, type StreamName } from '../event.ts';
import { type Appended, EventIdReused, type ExpectedRevision, LogUnavailable, WrongExpectedRevision } from '../log.ts';
import { messageHeaderBytes, messageKinds, type RefusedAppend, writeMessageHeader } from './messages.ts';

/** Messages that wait to be written together. There is room for one more, the visible end, before the first of them. */
export class AnswerBuffer {
  readonly #room: number;
  #buffer = Buffer.allocUnsafe(4096);
  #length: number;

  constructor(room: number) {
    this.#room = room;
    this.#length = room;
  }

  get bytes(): number {
    return this.#length - this.#room;
  }

  get isEmpty(): boolean {
    return this.#length === this.#room;
  }

  done(number: number, { position, revisions }: Appended): void {
    const bytes = messageHeaderBytes + 18 + revisions.length * 8;
    const at = this.#reserve(bytes);
    writeMessageHeader(this.#buffer, at, bytes, messageKinds.done);
    this.#buffer.writeDoubleLE(number, at + 5);
    this.#buffer.writeDoubleLE(parsePosition(position), at + 13);
    this.#buffer.writeUInt16LE(revisions.length, at + 21);
    let next = at + 23;
    for (const revision of revisions) next = this.#buffer.writeDoubleLE(Number(revision), next);
  }

  refused(number: number, error: unknown): void {
    const text = JSON.stringify(refusalOf(error));
    const bytes = messageHeaderBytes + 8 + Buffer.byteLength(text);
    const at = this.#reserve(bytes);
    writeMessageHeader(this.#buffer, at, bytes, messageKinds.refused);
    this.#buffer.writeDoubleLE(number, at + 5);
    this.#buffer.write(text, at + 13);
  }

  /** A copy of everything, with what is written into the room before it. */
  take(writeFirst: ((target: Buffer) => void) | undefined): Buffer {
    writeFirst?.(this.#buffer);
    const taken = Buffer.from(this.#buffer.subarray(writeFirst === undefined ? this.#room : 0, this.#length));
    this.#length = this.#room;
    return taken;
  }

  #reserve(bytes: number): number {
    const at = this.#length;
    this.#length += bytes;
    if (this.#length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#length, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, at);
      this.#buffer = larger;
    }
    return at;
  }
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
