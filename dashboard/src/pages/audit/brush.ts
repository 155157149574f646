/** A choice of buckets in a histogram of time. Pure. */

export interface BrushBucket {
  /** Milliseconds since the epoch. */
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/** From one bucket to another, both included, in any order. */
export interface Brushed {
  readonly anchor: number;
  readonly cursor: number;
}

/** Each bucket ends where the next begins, the last one with the range. */
export function bucketsBetween(starts: readonly number[], end: number): readonly BrushBucket[] {
  return starts.map((start, place) => ({ start, end: starts[place + 1] ?? Math.max(end, start + 1) }));
}

/** The bucket at a share of the width, from 0 to 1. */
export function bucketAt(share: number, count: number): number {
  return Math.min(count - 1, Math.max(0, Math.floor(share * count)));
}

/** The times from the first chosen bucket to the end of the last; undefined without buckets. */
export function timesOf(
  buckets: readonly BrushBucket[],
  { anchor, cursor }: Brushed,
): { readonly from: number; readonly to: number } | undefined {
  const first = buckets[Math.min(anchor, cursor)];
  const last = buckets[Math.max(anchor, cursor)];
  return first === undefined || last === undefined ? undefined : { from: first.start, to: last.end };
}

/** After a key: the arrow keys, Home and End move; with Shift, the anchor stays. Undefined for another key. */
export function movedBy(key: string, extend: boolean, before: Brushed | undefined, count: number): Brushed | undefined {
  const last = count - 1;
  if (last < 0) return undefined;
  const at = before?.cursor ?? last;
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[key];
  if (to === undefined) return undefined;
  const cursor = before === undefined && key.startsWith('Arrow') ? at : Math.min(last, Math.max(0, to));
  return { cursor, anchor: extend && before !== undefined ? before.anchor : cursor };
}
