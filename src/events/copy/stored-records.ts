/** The records of a log in files, in the order of their positions, as they are stored. */
import { createHash, type Hash } from 'node:crypto';
import type { EncodedAppend, PreparedWrite } from '../embedded/append-batch.ts';
import { recordEnd, recordIsSound, recordRevision, recordStream, sameStream } from '../embedded/event-record.ts';
import type { BatchFrame } from '../embedded/frame.ts';
import { LogCorrupted } from '../embedded/log-errors.ts';
import { type LogFiles, segmentName } from '../embedded/segment.ts';
import { type ReadableSegment, walkSegment } from '../embedded/segment-blocks.ts';
import type { LogEngine } from '../replicated/engine.ts';

/** Some records that follow each other. */
export interface RecordRun {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
  /** Position of the first record. */
  readonly first: number;
  /** Position of the last one. */
  readonly last: number;
}

/** A log in files whose segments are listed anew with each call. */
export interface RecordSource extends LogFiles {
  segmentOf(position: number): ReadableSegment | undefined;
  /** The position after the segment's last event; infinite for the last segment. */
  endOf(segment: ReadableSegment): number;
}

/**
 * Yields the records after one position up to another. What a run holds stays valid until the next.
 * @throws LogCorrupted when a record is missing or damaged; the signal's reason
 */
export async function* storedRecords(
  log: RecordSource,
  after: number,
  until: number,
  signal: AbortSignal,
): AsyncGenerator<RecordRun> {
  for (let next = after + 1; next <= until; ) {
    const segment = log.segmentOf(next);
    const last = segment === undefined ? 0 : Math.min(log.endOf(segment) - 1, until);
    if (segment === undefined || last < next) {
      throw new LogCorrupted(segmentName(next), 0, `no segment has position ${next}`);
    }
    for await (const { buffer, frames } of walkSegment(log, segment, last)) {
      signal.throwIfAborted();
      for (const frame of frames) {
        if (frame.last >= next) yield partOf(buffer, frame, segment.name, { next, last });
      }
    }
    next = last + 1;
  }
}

function partOf(
  buffer: Buffer,
  frame: BatchFrame,
  segment: string,
  { next, last }: { readonly next: number; readonly last: number },
): RecordRun {
  let { start, first } = frame;
  for (; first < next; first++) start = soundEnd(buffer, start, frame.end, segment);
  if (frame.last <= last) return { buffer, start, end: frame.end, first, last: frame.last };
  let end = start;
  for (let position = first; position <= last; position++) end = soundEnd(buffer, end, frame.end, segment);
  return { buffer, start, end, first, last };
}

function soundEnd(buffer: Buffer, at: number, end: number, segment: string): number {
  if (!recordIsSound(buffer, at, end)) throw new LogCorrupted(segment, at, 'a record has an impossible length');
  return recordEnd(buffer, at);
}

/**
 * SHA-256 over the records of a log. Positions begin at 1 and have no gaps, and each record begins with its length:
 * logs with equal digests have equal records at equal positions.
 */
export class RecordDigest {
  readonly #hash: Hash = createHash('sha256');

  add({ buffer, start, end }: RecordRun): void {
    this.#hash.update(buffer.subarray(start, end));
  }

  /** Of the records so far. */
  get hex(): string {
    return this.#hash.copy().digest('hex');
  }
}

/** The first position at which two logs have different records; undefined when all up to `until` are equal. */
export async function firstDifference(
  one: RecordSource,
  other: RecordSource,
  until: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const others = singleRecords(storedRecords(other, 0, until, signal));
  try {
    let position = 0;
    for await (const record of singleRecords(storedRecords(one, 0, until, signal))) {
      position++;
      const { value } = await others.next();
      if (value === undefined || !record.equals(value)) return position;
    }
    return undefined;
  } finally {
    await others.return(undefined);
  }
}

async function* singleRecords(runs: AsyncIterable<RecordRun>): AsyncGenerator<Buffer, undefined> {
  for await (const { buffer, start, end } of runs) {
    for (let at = start; at < end; at = recordEnd(buffer, at)) yield buffer.subarray(at, recordEnd(buffer, at));
  }
  return undefined;
}

// Puts stored records together to appends that expect the revisions that the records have.

/** EventStoreDB takes an append of up to 768 KiB, and Kafka one of about 1 MiB, in one piece. */
const groupBytes = 512 * 1024;
/** Every write is part of the append's head, which EventStoreDB has in the metadata of one event. */
const mostWrites = 500;

export interface RecordGroup extends EncodedAppend {
  /** Position of its last record. */
  readonly last: number;
}

/** A record that is larger than the size of a group is one by itself. */
export async function* recordGroups(runs: AsyncIterable<RecordRun>): AsyncGenerator<RecordGroup> {
  let group: OpenGroup | undefined;
  for await (const { buffer, start, end, first } of runs) {
    let position = first;
    for (let at = start; at < end; at = recordEnd(buffer, at)) {
      const record = buffer.subarray(at, recordEnd(buffer, at));
      if (group !== undefined && !group.hasRoomFor(record)) {
        yield group;
        group = undefined;
      }
      group ??= new OpenGroup(record.length);
      group.add(record, position++);
    }
  }
  if (group !== undefined) yield group;
}

class OpenGroup implements RecordGroup {
  readonly writes: PreparedWrite[] = [];
  last = 0;
  readonly #buffer: Buffer;
  #length = 0;
  #latest = 0;

  constructor(firstBytes: number) {
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(groupBytes, firstBytes));
  }

  get records(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  hasRoomFor(record: Buffer): boolean {
    return this.#length + record.length <= this.#buffer.length && this.writes.length < mostWrites;
  }

  add(record: Buffer, position: number): void {
    const at = this.#length;
    record.copy(this.#buffer, at);
    this.#length += record.length;
    this.last = position;
    const revision = recordRevision(record, 0);
    const latest = this.writes.at(-1);
    const continues =
      latest !== undefined &&
      sameStream(this.#buffer, this.#latest, at) &&
      recordRevision(this.#buffer, this.#latest) === revision - 1;
    this.#latest = at;
    if (continues) {
      this.writes[this.writes.length - 1] = { ...latest, count: latest.count + 1 };
      return;
    }
    const expectedRevision = revision === 0 ? 'noStream' : BigInt(revision - 1);
    this.writes.push({ stream: recordStream(record, 0), expectedRevision, count: 1 });
  }
}

/** Where a log is that is copied, or a copy of it. */
export type CopyPlace = LogInFolder | LogOnEngine;

interface LogInFolder {
  /** Absolute. */
  readonly folder: string;
}

export interface LogOnEngine {
  /** Each call makes an engine of its own, which is not open. */
  readonly engine: () => LogEngine | Promise<LogEngine>;
  /** Absolute: the folder of a replica of the log, which is used and kept. Undefined: a temporary one. */
  readonly replica: string | undefined;
}

export interface CopyOptions {
  /** An engine cannot be used at the moment; the copy goes on when it can. */
  readonly onDelay?: ((reason: string) => void) | undefined;
  readonly onProgress?: ((progress: LogCopyProgress) => void) | undefined;
  readonly signal: AbortSignal;
}

export interface LogCopyProgress {
  readonly step: 'reading the source' | 'reading the destination' | 'comparing' | 'copying' | 'verifying';
  /** Position of the last event so far. */
  readonly position: number;
}
