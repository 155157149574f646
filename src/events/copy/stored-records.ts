/** The records of a log in files, in the order of their positions, as they are stored. */
import { createHash, type Hash } from 'node:crypto';
import { recordEnd, recordIsSound } from '../embedded/event-record.ts';
import type { BatchFrame } from '../embedded/frame.ts';
import { LogCorrupted } from '../embedded/log-errors.ts';
import { type LogFiles, segmentName } from '../embedded/segment.ts';
import { type ReadableSegment, walkSegment } from '../embedded/segment-blocks.ts';

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
