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
