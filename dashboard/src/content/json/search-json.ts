/** Search in the names and values of a document, decoded: `é` finds `\u00e9`. */
import type { Sliced } from '../sliced.ts';
import { searchPattern } from '../text/search-pattern.ts';
import { type JsonDocument, kindOf, nameOf, sourceOf, stringOf } from './json-document.ts';

export interface JsonMatch {
  readonly index: number;
  readonly where: 'name' | 'value';
}

export interface JsonMatches {
  readonly matches: readonly JsonMatch[];
  /** Whether there are more than `max`. */
  readonly more: boolean;
}

const VALUES_BETWEEN_YIELDS = 500;

/** @param top only this value and what is in it */
export function* searchJson(document: JsonDocument, query: string, top = 0, max = 1_000): Sliced<JsonMatches> {
  const matches: JsonMatch[] = [];
  if (query === '') return { matches, more: false };
  const pattern = searchPattern(query);
  const end = document.nexts[top] ?? 0;
  for (let index = top; index < end; index += 1) {
    if (index % VALUES_BETWEEN_YIELDS === VALUES_BETWEEN_YIELDS - 1) yield;
    const node = { document, index };
    const name = nameOf(node);
    if (name !== undefined && pattern.test(name)) matches.push({ index, where: 'name' });
    const kind = kindOf(node);
    if (kind === 'object' || kind === 'array') continue;
    if (pattern.test(stringOf(node) ?? sourceOf(node))) matches.push({ index, where: 'value' });
    if (matches.length > max) return { matches: matches.slice(0, max), more: true };
  }
  return { matches, more: false };
}
