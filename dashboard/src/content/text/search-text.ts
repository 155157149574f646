/** Search in a long text, in parts, so that the page stays responsive. */
import type { Sliced } from '../sliced.ts';
import { searchPattern } from './search-pattern.ts';

export interface TextMatch {
  readonly start: number;
  readonly end: number;
}

export interface TextMatches {
  readonly matches: readonly TextMatch[];
  readonly more: boolean;
}

const PART = 262_144;

/** All places where the text contains `query`, in upper or lower case; at most `max`. */
export function* searchText(text: string, query: string, max = 1_000): Sliced<TextMatches> {
  const matches: TextMatch[] = [];
  if (query === '') return { matches, more: false };
  const pattern = searchPattern(query, 'g');
  // A match can begin in one part and end in the next; upper and lower case can differ in length.
  const overlap = query.length * 3;
  let after = 0;
  for (let from = 0; from < text.length; from += PART) {
    const part = text.slice(from, from + PART + overlap);
    pattern.lastIndex = Math.max(0, after - from);
    for (let match = pattern.exec(part); match !== null && match.index < PART; match = pattern.exec(part)) {
      after = from + match.index + match[0].length;
      matches.push({ start: from + match.index, end: after });
      if (matches.length > max) return { matches: matches.slice(0, max), more: true };
    }
    yield;
  }
  return { matches, more: false };
}
