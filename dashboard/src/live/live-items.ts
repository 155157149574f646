/** What the list shows: rows and gaps, and which of them are new. */
import { comparePlaces, type LiveRow, type RowPlace } from './live-row.ts';
import type { Gap } from './live-state.ts';

export type LiveItem = LiveRow | Gap;

export function isGap(item: LiveItem): item is Gap {
  return 'found' in item;
}

/** Newest first. A gap is above the requests that started before its end. @param after older rows are left out */
export function itemsOf(rows: readonly LiveRow[], gaps: readonly Gap[], after: RowPlace | undefined): LiveItem[] {
  const items: LiveItem[] = [];
  const waiting = gaps.filter(({ to }) => after === undefined || to > after.startedAt);
  const end = after === undefined ? 0 : indexAfter(rows, after);
  for (let at = rows.length - 1; at >= end; at -= 1) {
    const row = rows[at];
    if (row === undefined) continue;
    for (let gap = waiting.at(-1); gap !== undefined && gap.to >= row.startedAt; gap = waiting.at(-1)) {
      items.push(gap);
      waiting.pop();
    }
    items.push(row);
  }
  return [...items, ...waiting.reverse()];
}

/** Number of rows after a place. @param rows oldest first */
export function countAfter(rows: readonly LiveRow[], place: RowPlace | undefined): number {
  return place === undefined ? rows.length : rows.length - indexAfter(rows, place);
}

function indexAfter(rows: readonly LiveRow[], place: RowPlace): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const row = rows[middle];
    if (row !== undefined && comparePlaces(row, place) <= 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
