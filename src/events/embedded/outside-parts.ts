/** Parts of a stream for processes that read the log of another one. */
import type { IndexedPart } from './archive/index-reader.ts';
import { IndexIsWrong } from './log-errors.ts';
import type { ReadableSegment } from './log-reader.ts';
import type { StreamPart } from './stream-reader.ts';

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
