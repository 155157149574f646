/** Walks the frames of a segment, checking each. */
import { type BatchFrame, readFrame } from './frame.ts';
import type { FrameRun } from './frame-run.ts';
import { LogCorrupted } from './log-errors.ts';
import { placeEveryBytes } from './segment.ts';
import type { SegmentBlocks } from './segment-blocks.ts';

/**
 * Yields the segment's frames up to the one with the position `last`. What a run holds stays valid until the next.
 * @param from where a frame begins; default the beginning of the segment
 * @throws LogCorrupted when a frame is damaged or missing
 */
export async function* walkBlocks(
  blocks: SegmentBlocks,
  mark: number,
  segment: { readonly first: number; readonly name: string },
  last: number,
  from: { readonly offset: number; readonly position: number } = { offset: 0, position: segment.first },
): AsyncGenerator<FrameRun> {
  let { offset, position: next } = from;
  while (next <= last) {
    const block = await blocks.read(offset, placeEveryBytes, true);
    if (block === undefined) throw new LogCorrupted(segment.name, offset, 'the segment ends too early');
    const frames: BatchFrame[] = [];
    let at = block.start;
    while (next <= last) {
      const frame = readFrame(block.buffer, at, block.end, mark);
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
}
