/** Finds what a rule describes in a text. Whole texts and streams are rewritten with the same finders. */

export interface Found {
  readonly start: number;
  /** After the last unit. Greater than `start`. */
  readonly end: number;
}

export interface Finder<Match extends Found = Found> {
  /** The most UTF-16 units of a match. Infinity: not usable in streams. */
  readonly longest: number;
  /**
   * Begins a search. The function returns the match with the lowest start at or after `from`; the text before `from` is
   * context. Calls have ascending `from`, which lets a search keep what it found ahead.
   */
  scan(text: string): (from: number) => Match | undefined;
  /**
   * The lowest index at or after `from` at which a match may begin that only more text decides; the length of the text
   * when there is none. Default: `longest` and two further units before the end.
   */
  undecidedFrom?(text: string, from: number): number;
  /** A short text that a search reads in place of the text before `from`. Default: its last four units. */
  contextBefore?(text: string, from: number): string;
}

/** Units after a match that may decide it: the rest of a surrogate pair, a word boundary. */
export const lookahead = 2;

/** Replacements can be longer than what they replace. */
export const mostRewritten = 64 * 1024 * 1024;

/** The text with each match replaced; the same string when there is none. */
export function rewriteWhole<Match extends Found>(
  finder: Finder<Match>,
  text: string,
  replace: (match: Match, text: string) => string,
): string {
  const next = finder.scan(text);
  let match = next(0);
  if (match === undefined) return text;
  let rewritten = '';
  let from = 0;
  while (match !== undefined) {
    rewritten += text.slice(from, match.start) + replace(match, text);
    if (rewritten.length > mostRewritten) throw new Error(`the text becomes longer than ${mostRewritten} characters`);
    from = match.end;
    match = next(from);
  }
  return rewritten + text.slice(from);
}
