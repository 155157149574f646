/** Two texts compared by line, and changed lines or short texts by word. */
import type { Sliced } from '../sliced.ts';
import { type Comparison, compareSequences, MAX_EDITS } from './compare-sequences.ts';

export interface TextComparison extends Comparison {
  readonly oldItems: readonly string[];
  readonly newItems: readonly string[];
}

const ITEMS_BETWEEN_YIELDS = 5_000;
/** Texts with more lines are compared up to here; the rest is reported as not compared. */
const MAX_LINES = 200_000;

/** Lines with their line break: `a\r\n` and `a\n` differ. */
export function* compareLines(before: string, after: string, maxEdits = MAX_EDITS): Sliced<TextComparison> {
  return yield* compareItems(yield* linesOf(before), yield* linesOf(after), maxEdits);
}

/** Words, white space and single punctuation marks: for changed lines and for texts within a JSON value. */
export function* compareWords(before: string, after: string, maxEdits = 500): Sliced<TextComparison> {
  return yield* compareItems(yield* wordsOf(before), yield* wordsOf(after), maxEdits);
}

function* compareItems(oldItems: string[], newItems: string[], maxEdits: number): Sliced<TextComparison> {
  const numbers = new Map<string, number>();
  const before = yield* numbered(oldItems, numbers);
  const after = yield* numbered(newItems, numbers);
  return { oldItems, newItems, ...(yield* compareSequences(before, after, maxEdits)) };
}

function* numbered(items: readonly string[], numbers: Map<string, number>): Sliced<Int32Array> {
  const list = new Int32Array(items.length);
  for (const [index, item] of items.entries()) {
    if (index % ITEMS_BETWEEN_YIELDS === ITEMS_BETWEEN_YIELDS - 1) yield;
    const known = numbers.get(item);
    list[index] = known ?? numbers.size;
    if (known === undefined) numbers.set(item, numbers.size);
  }
  return list;
}

function* linesOf(text: string): Sliced<string[]> {
  const lines: string[] = [];
  for (let at = 0; at < text.length; ) {
    const found = text.indexOf('\n', at);
    // The last item has everything that is left, so that nothing is compared as equal unread.
    const end = found < 0 || lines.length === MAX_LINES ? text.length : found + 1;
    lines.push(text.slice(at, end));
    at = end;
    if (lines.length % ITEMS_BETWEEN_YIELDS === 0) yield;
  }
  return lines;
}

const word = /[\p{L}\p{N}\p{M}_]+|[^\S\n]+|[\s\S]/gu;

function* wordsOf(text: string): Sliced<string[]> {
  const words: string[] = [];
  for (const [found] of text.matchAll(word)) {
    words.push(found);
    if (words.length % ITEMS_BETWEEN_YIELDS === 0) yield;
  }
  return words;
}
