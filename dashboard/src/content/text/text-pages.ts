/**
 * Long text in pages: a page ends after a line break where it can, and never within a character. Pages follow each other
 * without gaps, so a text of any length is shown a few pages at a time.
 */
import type { Sliced } from '../sliced.ts';

export interface TextPage {
  readonly start: number;
  readonly end: number;
  /** The number of its first line, from 1; a long line continues on the next page. */
  readonly firstLine: number;
  /** Whether the page begins within a line. */
  readonly continues: boolean;
}

export interface PageLimits {
  readonly characters: number;
  readonly lines: number;
}

export const pageLimits: PageLimits = { characters: 32_768, lines: 400 };
const PAGES_BETWEEN_YIELDS = 50;

/** The page after `previous`, or the first one; undefined at the end of the text. An empty text has one empty page. */
export function nextPage(text: string, previous: TextPage | undefined, limits = pageLimits): TextPage | undefined {
  const start = previous?.end ?? 0;
  if (start >= text.length && previous !== undefined) return undefined;
  const continues = start > 0 && text[start - 1] !== '\n';
  const firstLine = previous === undefined ? 1 : previous.firstLine + linesWithin(text, previous);
  return { start, end: endOfPage(text, start, limits), firstLine, continues };
}

function linesWithin(text: string, { start, end }: TextPage): number {
  // Of a slice: in a text without line breaks, `indexOf` would read to the end of the text for each page.
  const page = text.slice(start, end);
  let lines = 0;
  for (let at = page.indexOf('\n'); at >= 0; at = page.indexOf('\n', at + 1)) lines += 1;
  return lines;
}

function endOfPage(text: string, start: number, { characters, lines }: PageLimits): number {
  const limit = Math.min(text.length, start + characters);
  const part = text.slice(start, limit);
  let lastBreak = -1;
  let found = 0;
  for (let at = part.indexOf('\n'); at >= 0; at = part.indexOf('\n', at + 1)) {
    lastBreak = start + at;
    found += 1;
    if (found === lines) return lastBreak + 1;
  }
  if (limit === text.length) return limit;
  if (lastBreak >= 0) return lastBreak + 1;
  return insideCharacter(text, limit) ? limit - 1 : limit;
}

function insideCharacter(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at);
  return before >= 0xd800 && before < 0xdc00 && after >= 0xdc00 && after < 0xe000;
}

export function* allPages(text: string, limits = pageLimits): Sliced<TextPage[]> {
  const pages: TextPage[] = [];
  for (let page = nextPage(text, undefined, limits); page !== undefined; page = nextPage(text, page, limits)) {
    pages.push(page);
    if (pages.length % PAGES_BETWEEN_YIELDS === 0) yield;
  }
  return pages;
}

/** The index of the page that contains the character at `offset`. */
export function pageIndexAt(pages: readonly TextPage[], offset: number): number {
  let low = 0;
  let high = pages.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((pages[middle]?.start ?? 0) <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}
