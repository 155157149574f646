/** Finds what several recognisers recognise. */
import { type Finder, type Found, lookahead } from '../text/finder.ts';
import { type NormalForm, normalForm } from '../text/normal-form.ts';
import { context } from '../text/stream-rewriter.ts';

/** More retained text, most of which is not shown, ends a stream with an error. */
const mostRetained = 16_384;
const longestKept = 65_536;

export interface RecognisedMatch extends Found {
  readonly entity: string;
}

/** Reads the normal form of texts; matches are in the texts themselves. @param ignored values that are no match */
export function recogniserFinder(
  recognisers: readonly Recogniser[],
  ignored: ReadonlySet<string> = new Set(),
): Finder<RecognisedMatch> {
  const ignoredForms = new Set([...ignored].map((value) => normalForm(value).text));
  const longest = Math.max(1, ...recognisers.map((one) => one.longest));
  let last: { readonly text: string; readonly form: NormalForm } | undefined;
  /** A piece of a text is read several times: its form is kept until the next one. */
  const formOf = (text: string): NormalForm => {
    if (last?.text === text) return last.form;
    const form = normalForm(text);
    last = text.length <= longestKept ? { text, form } : undefined;
    return form;
  };
  return {
    longest,
    scan(text) {
      const normal = formOf(text);
      const searches = recognisers
        .filter(({ hint }) => hint.test(normal.text))
        .flatMap((one) =>
          [one.candidates, ...(one.furtherCandidates === undefined ? [] : [one.furtherCandidates])].map(
            (candidates) => new Search(one, candidates, normal.text, ignoredForms),
          ),
        );
      return (from) => {
        const place = normal.indexOf(from);
        let first: RecognisedMatch | undefined;
        for (const search of searches) {
          const match = search.from(place);
          if (match !== undefined && (first === undefined || match.start < first.start)) first = match;
        }
        if (first === undefined) return undefined;
        const { start, end, entity } = first;
        return { start: normal.startOf(start), end: normal.endOf(end - 1), entity };
      };
    },
    undecidedFrom(text, from) {
      const { text: normal, indexOf, startOf } = formOf(text);
      const place = indexOf(from);
      const undecided = Math.max(place, normal.length - longest - lookahead, lastRegion(normal, place));
      const start = Math.max(from, startOf(undecided));
      if (text.length - start > mostRetained) throw new Error(`a value may be longer than ${mostRetained} characters`);
      return start;
    },
    contextBefore(text, from) {
      const { text: normal, indexOf } = formOf(text);
      const place = indexOf(from);
      return normal.slice(Math.max(0, place - context), place);
    },
  };
}

/** The next match of one recogniser, which is kept until the search is past it. */
class Search {
  readonly #recogniser: Recogniser;
  readonly #candidates: RegExp;
  readonly #text: string;
  readonly #ignored: ReadonlySet<string>;
  #next: RecognisedMatch | undefined;
  #from = -1;

  constructor(recogniser: Recogniser, candidates: RegExp, text: string, ignored: ReadonlySet<string>) {
    this.#recogniser = recogniser;
    this.#candidates = candidates;
    this.#text = text;
    this.#ignored = ignored;
  }

  from(from: number): RecognisedMatch | undefined {
    if (this.#from === -1 || (this.#next !== undefined && this.#next.start < from)) this.#next = this.#search(from);
    this.#from = from;
    return this.#next;
  }

  #search(from: number): RecognisedMatch | undefined {
    const { entity } = this.#recogniser;
    const candidates = this.#candidates;
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

const space = /[ \t\n]/;
const anySpace = /\s/;
const digit = /\d/;
const mostWithoutDigit = 4;

/**
 * Where the last part of a text begins that a match can extend over: the last word, and the words before it that are
 * separated by spaces, tabs or line breaks and are part of a number. See `Recogniser.candidates`.
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
    const isPart = hasDigit || isLastWord || wordEnd - start <= mostWithoutDigit;
    if (!isPart || start === from || !space.test(text.charAt(start - 1))) break;
    start -= 1;
  }
  return first;
}

/**
 * Recognises one kind of personal or secret data in the normal form of a text (`text/normal-form.ts`). A candidate counts
 * only when its check succeeds.
 */
export interface Recogniser {
  /** In upper case: part of placeholders and name in the configuration. */
  readonly entity: string;
  readonly label: string;
  /** Whether it is used when the configuration names no entities. */
  readonly byDefault: boolean;
  /** The most UTF-16 units of the normal form that a candidate and its look-ahead read. */
  readonly longest: number;
  /**
   * Finds candidates: a global pattern without unbounded repetition. Parts of a candidate between spaces, tabs or
   * line breaks contain a digit or have at most four units, and the first one contains a digit: streams rely on it.
   */
  readonly candidates: RegExp;
  /** Further candidates, under the same conditions. */
  readonly furtherCandidates?: RegExp;
  /** Quick test: a text without a match contains nothing to recognise. */
  readonly hint: RegExp;
  /** The length of the valid beginning of a candidate; 0 when there is none. */
  validLength(candidate: string): number;
}

/** For candidates that are valid as a whole or not at all. */
export function allOrNothing(isValid: (candidate: string) => boolean): (candidate: string) => number {
  return (candidate) => (isValid(candidate) ? candidate.length : 0);
}

export const anyDigit = /\d/;

export function digitsOf(text: string): string {
  return text.replace(/\D/g, '');
}
