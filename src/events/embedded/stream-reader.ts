/** Reads one stream through the places of its frames. */

import type { RecordedEvent, StreamName } from '../event.ts';
import type { ReadStreamOptions } from '../log.ts';
import type { IndexedPart } from './archive/index-file.ts';
import { recordEnd, recordIsOf, recordRevision, recordStream, sameStream } from './event-record.ts';
import { type FrameRun, readFrame } from './frame.ts';
import { IndexIsWrong, LogCorrupted } from './log-errors.ts';
import type { Segment } from './segment.ts';
import {
  type Block,
  openBlocks,
  type ReadableSegment,
  type ReadableSegments,
  type SegmentBlocks,
  walkSegment,
} from './segment-blocks.ts';

/** The frames of one segment that hold events of the stream. */
export interface StreamPart {
  readonly segment: ReadableSegment;
  /** Revision of the stream's last event in this segment. */
  readonly last: number;
  /** Pairs of frame offset and first revision in that frame, ascending. */
  readonly frames: readonly number[];
  /** From the index, which may be wrong, and not from the frames themselves. */
  readonly indexed?: boolean;
}

/** The part of the stream in a segment whose streams are in memory, as far as readers may see it. */
export function visiblePart(segment: Segment, stream: StreamName): StreamPart | undefined {
  const places = segment.streams?.places.get(stream);
  if (places === undefined) return undefined;
  const { frames, last } = places;
  let end = frames.length;
  while (end > 0 && (frames[end - 2] ?? 0) >= segment.visibleBytes) end -= 2;
  if (end === 0) return undefined;
  return { segment, last: end === frames.length ? last : (frames[end + 1] ?? 0) - 1, frames: frames.slice(0, end) };
}

/** The part of the stream in a segment of which nothing is known: found by walking it up to the position `last`. */
export async function findStreamPart(
  log: ReadableSegments,
  segment: ReadableSegment,
  last: number,
  stream: StreamName,
): Promise<StreamPart | undefined> {
  const part = new PartCollector(stream);
  for await (const run of walkSegment(log, segment, last)) part.add(run);
  return part.last === -1 ? undefined : { segment, last: part.last, frames: part.frames };
}

/** Most of a stream's frames are small and apart from each other. */
const requestedBytes = 16 * 1024;

interface FramePlace {
  readonly segment: ReadableSegment;
  readonly offset: number;
  readonly first: number;
  readonly last: number;
  readonly indexed: boolean;
}

function* framePlaces(parts: readonly StreamPart[]): Generator<FramePlace> {
  for (const { segment, frames, last, indexed = false } of parts) {
    for (let index = 0; index < frames.length; index += 2) {
      const next = frames[index + 3];
      yield {
        segment,
        offset: frames[index] ?? 0,
        first: frames[index + 1] ?? 0,
        last: next === undefined ? last : next - 1,
        indexed,
      };
    }
  }
}

/**
 * @param parts the stream's visible parts, ascending; called again with the error when the index turns out to be wrong: reading
 *   then goes on behind what was yielded
 * @throws LogCorrupted
 */
export async function* readStreamOf(
  log: ReadableSegments,
  stream: StreamName,
  options: ReadStreamOptions,
  parts: (wrong: IndexIsWrong | undefined) => Promise<readonly StreamPart[]>,
): AsyncGenerator<RecordedEvent> {
  let read = 0;
  try {
    for await (const event of readStreamParts(log, stream, await parts(undefined), options)) {
      read++;
      yield event;
    }
  } catch (error) {
    if (!(error instanceof IndexIsWrong)) {
      log.readFailed?.(error);
      throw error;
    }
    let skip = read;
    for await (const event of readStreamParts(log, stream, await parts(error), options)) if (skip-- <= 0) yield event;
  }
}

async function* readStreamParts(
  log: ReadableSegments,
  stream: StreamName,
  parts: readonly StreamPart[],
  options: ReadStreamOptions,
): AsyncGenerator<RecordedEvent> {
  const backwards = options.direction === 'backwards';
  const from = options.fromRevision === undefined ? undefined : Number(options.fromRevision);
  let left = options.maxCount ?? Number.POSITIVE_INFINITY;
  const places = [...framePlaces(parts)].filter((place) =>
    from === undefined ? true : backwards ? place.first <= from : place.last >= from,
  );
  if (backwards) places.reverse();
  const access = new FrameAccess(log, stream);
  try {
    for (const place of places) {
      if (left <= 0) return;
      const events = await access.events(place);
      if (backwards) events.reverse();
      for (const event of events) {
        const revision = Number(event.revision);
        if (from !== undefined && (backwards ? revision > from : revision < from)) continue;
        if (left-- <= 0) return;
        yield event;
      }
    }
  } finally {
    access.close();
  }
}

class FrameAccess {
  readonly #log: ReadableSegments;
  readonly #stream: StreamName;
  readonly #name: Buffer;
  #segment: ReadableSegment | undefined;
  #blocks: SegmentBlocks | undefined;
  #block: Block | undefined;
  #blockOffset = 0;

  constructor(log: ReadableSegments, stream: StreamName) {
    this.#log = log;
    this.#stream = stream;
    this.#name = Buffer.from(stream);
  }

  /** The stream's events in that frame. @throws LogCorrupted, IndexIsWrong */
  async events(place: FramePlace): Promise<RecordedEvent[]> {
    const { records, mark } = this.#log;
    const { block, at } = await this.#load(place);
    const frame = readFrame(block.buffer, at, block.end, mark);
    if (typeof frame === 'string') {
      if (frame === 'no frame') throw wrongPlace(place, frame);
      throw new LogCorrupted(place.segment.name, place.offset, frame);
    }
    const events: RecordedEvent[] = [];
    let position = frame.first;
    for (let record = frame.start; record < frame.end; position++) {
      if (recordIsOf(block.buffer, record, this.#name)) {
        const event = records.read(block.buffer, record, position);
        if (event !== undefined) events.push(event);
      }
      const end = recordEnd(block.buffer, record);
      if (end <= record) throw new LogCorrupted(place.segment.name, place.offset, 'a record has an impossible length');
      record = end;
    }
    if (Number(events[0]?.revision) !== place.first || Number(events.at(-1)?.revision) !== place.last) {
      const found = `${events.length} events from revision ${events[0]?.revision}`;
      throw wrongPlace(
        place,
        `revisions ${place.first} to ${place.last} of ${this.#stream} are not there, but ${found}`,
      );
    }
    return events;
  }

  async #load(place: FramePlace): Promise<{ block: Block; at: number }> {
    if (this.#segment?.first !== place.segment.first) await this.#enter(place.segment);
    const loaded = this.#loadedAt(place.offset);
    if (loaded !== undefined) return loaded;
    this.#blockOffset = place.offset;
    this.#block = await this.#blocks?.read(place.offset, requestedBytes, false);
    if (this.#block === undefined) {
      throw new LogCorrupted(place.segment.name, place.offset, 'the segment ends too early');
    }
    return { block: this.#block, at: this.#block.start };
  }

  /** The frame, when the block that was read last holds it whole. */
  #loadedAt(offset: number): { block: Block; at: number } | undefined {
    const block = this.#block;
    if (block === undefined) return undefined;
    const at = block.start + (offset - this.#blockOffset);
    if (at < 0 || at >= block.end) return undefined;
    return readFrame(block.buffer, at, block.end, this.#log.mark) === 'cut short' ? undefined : { block, at };
  }

  async #enter(segment: ReadableSegment): Promise<void> {
    this.close();
    const { disk, dir, mark } = this.#log;
    this.#blocks = await openBlocks(disk, dir, segment.name, mark, segment.places);
    this.#segment = segment;
  }

  close(): void {
    this.#blocks?.close();
    this.#blocks = undefined;
    this.#block = undefined;
    this.#segment = undefined;
  }
}

/** A wrong place from the index makes the index wrong; a wrong place from the frames means that the log is damaged. */
function wrongPlace({ segment, offset, indexed }: FramePlace, reason: string): Error {
  return indexed
    ? new IndexIsWrong(segment.first, `at ${offset}: ${reason}`)
    : new LogCorrupted(segment.name, offset, reason);
}

// Finds the events of streams while the frames of a segment are walked.

/** Collects where the events of one stream lie. */
export class PartCollector {
  readonly #name: Buffer;
  /** Pairs of frame offset and first revision in that frame, ascending. */
  readonly frames: number[] = [];
  /** Revision of the last event; -1 when there is none. */
  last = -1;

  constructor(stream: StreamName) {
    this.#name = Buffer.from(stream);
  }

  add(run: FrameRun): void {
    let frameStart = run.start;
    for (const frame of run.frames) {
      let first = -1;
      for (let at = frame.start; at < frame.end; at = recordEnd(run.buffer, at)) {
        if (!recordIsOf(run.buffer, at, this.#name)) continue;
        this.last = recordRevision(run.buffer, at);
        if (first === -1) first = this.last;
      }
      if (first !== -1) this.frames.push(run.offset + frameStart - run.start, first);
      frameStart = frame.end;
    }
  }
}

/** Collects the last revisions of those streams that have events. */
export class LastRevisions {
  readonly #wanted: ReadonlySet<StreamName>;
  readonly found = new Map<StreamName, number>();

  constructor(wanted: ReadonlySet<StreamName>) {
    this.#wanted = wanted;
  }

  add({ buffer, frames }: FrameRun): void {
    for (const frame of frames) {
      let stream: StreamName | undefined;
      let latest = -1;
      for (let at = frame.start; at < frame.end; at = recordEnd(buffer, at)) {
        // most events follow one of the same stream: their name need not be read again
        if (latest === -1 || !sameStream(buffer, latest, at)) {
          const name = recordStream(buffer, at);
          stream = this.#wanted.has(name) ? name : undefined;
        }
        latest = at;
        if (stream !== undefined) this.found.set(stream, recordRevision(buffer, at));
      }
    }
  }
}

/** Parts of a stream for processes that read the log of another one. */
export function indexedPart(segment: ReadableSegment, parts: readonly IndexedPart[]): StreamPart | undefined {
  const part = parts.find(({ segment: first }) => first === segment.first);
  return part === undefined ? undefined : { segment, last: part.last, frames: part.frames, indexed: true };
}

/** @throws IndexIsWrong when events are missing between the two, and one of them is from the index */
export function checkContinues(before: StreamPart | undefined, part: StreamPart): void {
  const expected = (before?.last ?? -1) + 1;
  if (part.frames[1] === expected || !(before?.indexed || part.indexed)) return;
  throw new IndexIsWrong(part.segment.first, `revision ${expected} is missing`);
}
