/**
 * Rewrites a text that arrives in pieces. The texts returned, joined, are `rewriteWhole` of the whole text, however it
 * is divided. At most `finder.longest` and a few units are retained.
 */
import { type Finder, type Found, lookahead } from './finder.ts';

/** Units before the retained text that a finder may read: a surrogate pair, or a separator and a digit. */
export const context = 4;

export interface StreamRewriterOptions {
  /** Ends the text before the first match: neither its replacement nor what follows is returned. */
  readonly stopAtMatch?: boolean;
}

export class StreamRewriter<Match extends Found = Found> {
  readonly #finder: Finder<Match>;
  readonly #replace: (match: Match, text: string) => string;
  readonly #stopAtMatch: boolean;
  #text = '';
  /** Everything before it was returned. */
  #from = 0;
  #stopped = false;

  constructor(
    finder: Finder<Match>,
    replace: (match: Match, text: string) => string,
    options: StreamRewriterOptions = {},
  ) {
    this.#finder = finder;
    this.#replace = replace;
    this.#stopAtMatch = options.stopAtMatch ?? false;
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Units that were received and not returned. */
  get retained(): number {
    return this.#text.length - this.#from;
  }

  push(piece: string): string {
    if (this.#stopped || piece === '') return '';
    this.#text += piece;
    return this.#rewrite(false);
  }

  end(): string {
    return this.#stopped ? '' : this.#rewrite(true);
  }

  #rewrite(isWhole: boolean): string {
    const text = this.#text;
    let from = this.#from;
    const undecided = isWhole ? text.length : this.#undecidedFrom(text, from);
    let returned = '';
    const next = this.#finder.scan(text);
    while (from < undecided) {
      const match = next(from);
      if (match === undefined || match.start >= undecided) break;
      const replacement = this.#replace(match, text);
      returned += text.slice(from, match.start) + (this.#stopAtMatch ? '' : replacement);
      from = match.end;
      if (this.#stopAtMatch) {
        this.#stopped = true;
        this.#text = '';
        this.#from = 0;
        return returned;
      }
    }
    if (from < undecided) {
      returned += text.slice(from, undecided);
      from = undecided;
    }
    const before = this.#finder.contextBefore?.(text, from) ?? text.slice(Math.max(0, from - context), from);
    this.#text = before + text.slice(from);
    this.#from = before.length;
    return returned;
  }

  #undecidedFrom(text: string, from: number): number {
    const latest = this.#finder.undecidedFrom?.(text, from) ?? text.length - this.#finder.longest - lookahead;
    const at = Math.max(from, latest);
    return at > from && splitsPair(text, at) ? at - 1 : at;
  }
}

function splitsPair(text: string, at: number): boolean {
  return at < text.length && (text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800;
}
