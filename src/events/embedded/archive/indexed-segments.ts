import { readIndex } from './index-snapshot.ts';

/**
 * First and last position of each segment in the stream index of the log with that mark. Empty when there is no such
 * index, or it cannot be read: the index is derived, so that its absence is no damage. Changes no file.
 */
export function indexedSegments(dir: string, mark: number): ReadonlyMap<number, number> {
  return readIndex(dir, mark, (index) => index.segments()) ?? new Map();
}
