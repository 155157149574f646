/** Which streams have events in one segment, and where: kept in memory while the segment is being written. */
import { categoryOf, type StreamName } from '../event.ts';
import type { BatchFrame } from './frame.ts';
import type { FrameRun } from './frame-run.ts';
import { recordEnd, recordRevision, recordStream, sameStream } from './record-layout.ts';

export interface StreamPlaces {
  /** Revision of the stream's last event. */
  last: number;
  /** Pairs: the offset of a frame with events of the stream, and the revision of the first of them. */
  readonly frames: number[];
}

/**
 * For each category how many streams have events in a segment, how many of these have their first event there, and the
 * greatest of their names.
 */
export type StreamCategories = Record<string, { streams: number; begun: number; greatest: string }>;

export class SegmentStreams {
  readonly places = new Map<StreamName, StreamPlaces>();

  lastRevision(stream: StreamName): number | undefined {
    return this.places.get(stream)?.last;
  }

  /** Notes that the frame at `frameOffset` holds the stream's events `first` to `last`. */
  note(stream: StreamName, frameOffset: number, first: number, last: number): StreamPlaces {
    const places = this.places.get(stream);
    if (places === undefined) {
      const fresh = { last, frames: [frameOffset, first] };
      this.places.set(stream, fresh);
      return fresh;
    }
    places.last = last;
    const { frames } = places;
    if (frames[frames.length - 2] !== frameOffset) frames.push(frameOffset, first);
    return places;
  }

  noteFrame(buffer: Buffer, frame: BatchFrame, frameOffset: number): void {
    let latest: StreamPlaces | undefined;
    let latestAt = 0;
    for (let at = frame.start; at < frame.end; at = recordEnd(buffer, at)) {
      const revision = recordRevision(buffer, at);
      // most events follow one of the same stream: their name need not be read again
      if (latest !== undefined && sameStream(buffer, latestAt, at)) {
        latest.last = revision;
      } else {
        latest = this.note(recordStream(buffer, at), frameOffset, revision, revision);
      }
      latestAt = at;
    }
  }

  noteRun({ buffer, start, offset, frames }: FrameRun): void {
    let at = start;
    for (const frame of frames) {
      this.noteFrame(buffer, frame, offset + at - start);
      at = frame.end;
    }
  }

  /** Undoes `note` for the records in `buffer[start..end)`, which were to become the frame at `frameOffset`. */
  forget(buffer: Buffer, start: number, end: number, frameOffset: number): void {
    for (let at = start; at < end; at = recordEnd(buffer, at)) {
      const stream = recordStream(buffer, at);
      const places = this.places.get(stream);
      const [offset, first = 0] = places?.frames.slice(-2) ?? [];
      if (places === undefined || offset !== frameOffset) continue;
      places.frames.length -= 2;
      places.last = first - 1;
      if (places.frames.length === 0) this.places.delete(stream);
    }
  }
}

export function categoriesOf(streams: SegmentStreams): StreamCategories {
  const categories: StreamCategories = {};
  for (const [stream, { frames }] of streams.places) {
    const category = categoryOf(stream);
    const known = categories[category];
    const begun = frames[1] === 0 ? 1 : 0;
    if (known === undefined) {
      categories[category] = { streams: 1, begun, greatest: stream };
    } else {
      known.streams++;
      known.begun += begun;
      if (stream > known.greatest) known.greatest = stream;
    }
  }
  return categories;
}
