/** Walks all frames of a closed segment, in whichever form it is, in small steps. */
import type { Disk } from './disk.ts';
import { type Frame, readFrame } from './frame.ts';
import { LogCorrupted } from './log-errors.ts';
import type { ReadableSegment } from './log-reader.ts';
import { placeEveryBytes } from './segment.ts';
import { openBlocks } from './segment-blocks.ts';
import { SegmentStreams } from './segment-streams.ts';

/** Some whole frames that follow each other. */
export interface FrameRun {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
  /** Where they begin in the segment. */
  readonly offset: number;
  readonly frames: readonly Frame[];
}

/**
 * Yields the segment's frames up to the one with the position `last`. What a run holds stays valid until the next.
 * @throws LogCorrupted when a frame is damaged or missing
 */
export async function* walkSegment(
  log: { readonly disk: Disk; readonly dir: string; readonly mark: number },
  segment: ReadableSegment,
  last: number,
): AsyncGenerator<FrameRun> {
  const blocks = await openBlocks(log.disk, log.dir, segment.name, log.mark, segment.places);
  try {
    let offset = 0;
    let next = segment.first;
    while (next <= last) {
      const block = await blocks.read(offset, placeEveryBytes, true);
      if (block === undefined) throw new LogCorrupted(segment.name, offset, 'the segment ends too early');
      const frames: Frame[] = [];
      let at = block.start;
      while (next <= last) {
        const frame = readFrame(block.buffer, at, block.end, log.mark);
        if (typeof frame === 'string') {
          if (frames.length > 0) break;
          throw new LogCorrupted(segment.name, offset, frame);
        }
        if (frame.first !== next) {
          throw new LogCorrupted(segment.name, offset + at - block.start, `position ${next} is missing here`);
        }
        frames.push(frame);
        at = frame.end;
        next = frame.last + 1;
      }
      yield { buffer: block.buffer, start: block.start, end: at, offset, frames };
      offset += at - block.start;
    }
  } finally {
    blocks.close();
  }
}

/** Finds the streams of a closed segment. */
export async function findStreams(
  log: { readonly disk: Disk; readonly dir: string; readonly mark: number },
  segment: ReadableSegment,
  last: number,
): Promise<SegmentStreams> {
  const streams = new SegmentStreams();
  for await (const run of walkSegment(log, segment, last)) {
    let at = run.start;
    for (const frame of run.frames) {
      streams.noteFrame(run.buffer, frame, run.offset + at - run.start);
      at = frame.end;
    }
  }
  return streams;
}
