/** Finds what several recognisers recognise. */
import type { Finder, Found } from '../text/finder.ts';
import { lookahead } from '../text/finder.ts';
import type { Recogniser } from './recogniser.ts';

export interface RecognisedMatch extends Found {
  readonly entity: string;
}

/** @param ignored values that are no match */
export function recogniserFinder(
  recognisers: readonly Recogniser[],
  ignored: ReadonlySet<string> = new Set(),
): Finder<RecognisedMatch> {
  const longest = Math.max(1, ...recognisers.map((one) => one.longest));
  return {
    longest,
    scan(text) {
      const searches = recognisers.filter(({ hint }) => hint.test(text)).map((one) => new Search(one, text, ignored));
      return (from) => {
        let first: RecognisedMatch | undefined;
        for (const search of searches) {
          const match = search.from(from);
          if (match !== undefined && (first === undefined || match.start < first.start)) first = match;
        }
        return first;
      };
    },
    undecidedFrom: (text, from) => Math.max(from, text.length - longest - lookahead, lastRegion(text, from)),
  };
}

/** The next match of one recogniser, which is kept until the search is past it. */
class Search {
  readonly #recogniser: Recogniser;
  readonly #text: string;
  readonly #ignored: ReadonlySet<string>;
  #next: RecognisedMatch | undefined;
  #from = -1;

  constructor(recogniser: Recogniser, text: string, ignored: ReadonlySet<string>) {
    this.#recogniser = recogniser;
    this.#text = text;
    this.#ignored = ignored;
  }

  from(from: number): RecognisedMatch | undefined {
    if (this.#from === -1 || (this.#next !== undefined && this.#next.start < from)) this.#next = this.#search(from);
    this.#from = from;
    return this.#next;
  }

  #search(from: number): RecognisedMatch | undefined {
    const { candidates, entity } = this.#recogniser;
    candidates.lastIndex = from;
    for (;;) {
      const found = candidates.exec(this.#text);
      if (found === null) return undefined;
      const start = found.index;
      const length = this.#recogniser.validLength(found[0]);
      const isMatch = length > 0 && !this.#ignored.has(found[0].slice(0, length));
      if (isMatch) return { start, end: start + length, entity };
      candidates.lastIndex = start + 1;
    }
  }
}

const space = /[ \u00a0]/;
const anySpace = /\s/;
const digit = /\d/;
const mostWithoutDigit = 4;

/**
 * Where the last part of a text begins that a match can extend over: the last word, and the words before it that are
 * separated by single spaces and are part of a number. See `Recogniser.candidates`.
 */
function lastRegion(text: string, from: number): number {
  let start = text.length;
  let first = text.length;
  while (start > from) {
    const wordEnd = start;
    let hasDigit = false;
    while (start > from && !anySpace.test(text.charAt(start - 1))) {
      start -= 1;
      hasDigit ||= digit.test(text.charAt(start));
    }
    const isLastWord = wordEnd === text.length;
    if (hasDigit || isLastWord) first = start;
    const isPart = hasDigit || isLastWord || (wordEnd - start <= mostWithoutDigit && wordEnd > start);
    if (!isPart || start === from || !space.test(text.charAt(start - 1))) break;
    start -= 1;
  }
  return first;
}
