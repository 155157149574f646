/**
 * The shortest list of removals and additions that turns one sequence into another: E. W. Myers, "An O(ND) Difference
 * Algorithm and Its Variations" (1986). Bounded: beyond `maxEdits` the middle counts as replaced.
 */
import type { Sliced } from '../sliced.ts';

/** Items `oldStart`–`oldEnd` (exclusive) became `newStart`–`newEnd`; equal runs have the same length. */
export interface Run {
  readonly kind: 'equal' | 'replaced';
  readonly oldStart: number;
  readonly oldEnd: number;
  readonly newStart: number;
  readonly newEnd: number;
}

export interface Comparison {
  /** In order and without gaps; a replaced run is never followed by another. */
  readonly runs: readonly Run[];
  /** Whether the bound was reached, so that equal items between the first and the last change may not be found. */
  readonly limited: boolean;
}

/** Two thousand edits keep four million numbers for the way back, half of them used: about 8 MB. */
export const MAX_EDITS = 2_000;
const WORK_BETWEEN_YIELDS = 20_000;

/** Compares items by number: equal items have equal numbers. */
export function* compareSequences(before: Int32Array, after: Int32Array, maxEdits = MAX_EDITS): Sliced<Comparison> {
  let prefix = 0;
  const shorter = Math.min(before.length, after.length);
  while (prefix < shorter && before[prefix] === after[prefix]) prefix += 1;
  let suffix = 0;
  while (suffix < shorter - prefix && before[before.length - 1 - suffix] === after[after.length - 1 - suffix])
    suffix += 1;
  const oldMiddle = before.subarray(prefix, before.length - suffix);
  const newMiddle = after.subarray(prefix, after.length - suffix);
  const middle = yield* compareMiddle(oldMiddle, newMiddle, maxEdits);
  const equalRuns: Pair[] = [
    { old: 0, new: 0, length: prefix },
    ...(middle ?? []).map((pair) => ({ old: pair.old + prefix, new: pair.new + prefix, length: pair.length })),
    { old: before.length - suffix, new: after.length - suffix, length: suffix },
  ];
  return { runs: runsBetween(equalRuns, before.length, after.length), limited: middle === undefined };
}

/** `length` equal items, from `old` in one sequence and `new` in the other. */
interface Pair {
  readonly old: number;
  readonly new: number;
  readonly length: number;
}

/** The equal items in ascending order; undefined beyond the bound. */
function* compareMiddle(before: Int32Array, after: Int32Array, maxEdits: number): Sliced<Pair[] | undefined> {
  if (before.length === 0 || after.length === 0) return [];
  const most = Math.min(before.length + after.length, maxEdits);
  const offset = most + 1;
  /** By diagonal (old minus new index, plus `offset`): the furthest index in `before`. */
  const furthest = new Int32Array(2 * most + 3);
  const history: Int32Array[] = [];
  let work = 0;
  for (let edits = 0; edits <= most; edits += 1) {
    history.push(furthest.slice(offset - edits - 1, offset + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const down = furthest[offset + diagonal + 1] ?? 0;
      const right = furthest[offset + diagonal - 1] ?? 0;
      let x = diagonal === -edits || (diagonal !== edits && right < down) ? down : right + 1;
      const start = x;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x += 1;
      furthest[offset + diagonal] = x;
      work += x - start + 1;
      if (work > WORK_BETWEEN_YIELDS) {
        work = 0;
        yield;
      }
      if (x >= before.length && x - diagonal >= after.length) return wayBack(history, before.length, after.length);
    }
  }
  return undefined;
}

/** `history[d]` has the furthest indices before step d, for diagonals -d-1 to d+1. */
function wayBack(history: readonly Int32Array[], oldLength: number, newLength: number): Pair[] {
  const pairs: Pair[] = [];
  let x = oldLength;
  let y = newLength;
  for (let edits = history.length - 1; edits >= 0; edits -= 1) {
    const furthest = history[edits] ?? new Int32Array();
    const middle = edits + 1;
    const diagonal = x - y;
    const down = furthest[middle + diagonal + 1] ?? 0;
    const right = furthest[middle + diagonal - 1] ?? 0;
    const cameDown = diagonal === -edits || (diagonal !== edits && right < down);
    const startX = edits === 0 ? 0 : cameDown ? down : right + 1;
    if (x > startX) pairs.push({ old: startX, new: startX - diagonal, length: x - startX });
    const previous = cameDown ? diagonal + 1 : diagonal - 1;
    x = cameDown ? down : right;
    y = x - previous;
  }
  return pairs.reverse();
}

function runsBetween(equal: readonly Pair[], oldLength: number, newLength: number): Run[] {
  const runs: Run[] = [];
  let oldAt = 0;
  let newAt = 0;
  const replacedUntil = (oldEnd: number, newEnd: number) => {
    if (oldEnd > oldAt || newEnd > newAt) {
      runs.push({ kind: 'replaced', oldStart: oldAt, oldEnd, newStart: newAt, newEnd });
    }
    oldAt = oldEnd;
    newAt = newEnd;
  };
  for (const pair of equal) {
    if (pair.length === 0) continue;
    replacedUntil(pair.old, pair.new);
    oldAt = pair.old + pair.length;
    newAt = pair.new + pair.length;
    const last = runs.at(-1);
    if (last?.kind === 'equal') runs[runs.length - 1] = { ...last, oldEnd: oldAt, newEnd: newAt };
    else runs.push({ kind: 'equal', oldStart: pair.old, oldEnd: oldAt, newStart: pair.new, newEnd: newAt });
  }
  replacedUntil(oldLength, newLength);
  return runs;
}
