/** A comparison of lines as rows to display: changes with some context, unchanged lines folded. */
import type { Sliced } from '../sliced.ts';
import { compareWords, type TextComparison } from './compare-texts.ts';

export interface DiffSpan {
  readonly text: string;
  readonly changed: boolean;
}

export interface DiffLine {
  /** From 1. */
  readonly number: number;
  readonly spans: readonly DiffSpan[];
}

export type DiffRow =
  | { readonly kind: 'equal'; readonly before: DiffLine; readonly after: DiffLine }
  /** One of the two is absent where the numbers of removed and added lines differ. */
  | { readonly kind: 'changed'; readonly before: DiffLine | undefined; readonly after: DiffLine | undefined }
  | { readonly kind: 'folded'; readonly oldStart: number; readonly newStart: number; readonly lines: number };

export interface DiffCounts {
  readonly added: number;
  readonly removed: number;
}

const CONTEXT = 3;
/** Longer lines are not compared by word. */
const MAX_WORD_COMPARISON = 10_000;

export function* diffRows(comparison: TextComparison, context = CONTEXT): Sliced<DiffRow[]> {
  const { runs, oldItems, newItems } = comparison;
  const rows: DiffRow[] = [];
  for (const [index, run] of runs.entries()) {
    if (run.kind === 'equal') {
      const length = run.oldEnd - run.oldStart;
      const head = index === 0 ? 0 : Math.min(context, length);
      const tail = index === runs.length - 1 ? 0 : Math.min(context, length - head);
      const folded = length - head - tail;
      const equalRow = (at: number): DiffRow => ({
        kind: 'equal',
        before: whole(oldItems, run.oldStart + at),
        after: whole(newItems, run.newStart + at),
      });
      for (let at = 0; at < head; at += 1) rows.push(equalRow(at));
      if (folded > 0) {
        rows.push({ kind: 'folded', oldStart: run.oldStart + head, newStart: run.newStart + head, lines: folded });
      }
      for (let at = length - tail; at < length; at += 1) rows.push(equalRow(at));
      continue;
    }
    const removed = run.oldEnd - run.oldStart;
    const added = run.newEnd - run.newStart;
    for (let at = 0; at < Math.max(removed, added); at += 1) {
      const before = at < removed ? whole(oldItems, run.oldStart + at) : undefined;
      const after = at < added ? whole(newItems, run.newStart + at) : undefined;
      // Pairs are only meaningful where as many lines were added as removed.
      if (before !== undefined && after !== undefined && removed === added) {
        rows.push({ kind: 'changed', ...(yield* comparedByWord(before, after)) });
      } else rows.push({ kind: 'changed', before, after });
      yield;
    }
  }
  return rows;
}

/** The equal rows that a folded row stands for. */
export function unfold(comparison: TextComparison, row: Extract<DiffRow, { kind: 'folded' }>, max = 500): DiffRow[] {
  const rows: DiffRow[] = [];
  const shown = Math.min(max, row.lines);
  for (let at = 0; at < shown; at += 1) {
    const before = whole(comparison.oldItems, row.oldStart + at);
    rows.push({ kind: 'equal', before, after: whole(comparison.newItems, row.newStart + at) });
  }
  if (shown < row.lines) {
    rows.push({
      kind: 'folded',
      oldStart: row.oldStart + shown,
      newStart: row.newStart + shown,
      lines: row.lines - shown,
    });
  }
  return rows;
}

export function countChanges({ runs }: TextComparison): DiffCounts {
  let added = 0;
  let removed = 0;
  for (const run of runs) {
    if (run.kind === 'equal') continue;
    added += run.newEnd - run.newStart;
    removed += run.oldEnd - run.oldStart;
  }
  return { added, removed };
}

function whole(items: readonly string[], index: number): DiffLine {
  return { number: index + 1, spans: [{ text: items[index] ?? '', changed: false }] };
}

function* comparedByWord(before: DiffLine, after: DiffLine): Sliced<{ before: DiffLine; after: DiffLine }> {
  const oldText = before.spans[0]?.text ?? '';
  const newText = after.spans[0]?.text ?? '';
  if (oldText.length + newText.length > MAX_WORD_COMPARISON) return { before, after };
  const { old, new: added } = yield* wordSpans(oldText, newText);
  return { before: { ...before, spans: old }, after: { ...after, spans: added } };
}

export interface SpanPair {
  readonly old: readonly DiffSpan[];
  readonly new: readonly DiffSpan[];
}

/** Both texts in spans, with what differs marked. */
export function* wordSpans(before: string, after: string): Sliced<SpanPair> {
  const { runs, oldItems, newItems } = yield* compareWords(before, after);
  const old: DiffSpan[] = [];
  const added: DiffSpan[] = [];
  for (const run of runs) {
    const changed = run.kind === 'replaced';
    if (run.oldEnd > run.oldStart) old.push({ text: oldItems.slice(run.oldStart, run.oldEnd).join(''), changed });
    if (run.newEnd > run.newStart) added.push({ text: newItems.slice(run.newStart, run.newEnd).join(''), changed });
  }
  return { old, new: added };
}
