/**
 * Rewrites a text that arrives in pieces. The texts returned, joined, are `rewriteWhole` of the whole text, however it
 * is divided. At most `finder.longest` and a few units are retained.
 */

import type { TextPart } from '../guardrail-type.ts';
import { type Finder, type Found, lookahead, mostRewritten, rewriteWhole } from './finder.ts';

/** Units before the retained text that a finder may read: a surrogate pair, or a separator and a digit. */
export const context = 4;

interface StreamRewriterOptions {
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

// Rewrites the texts of a request: each alone, and then what extends over the boundary of two texts of which one
// continues the other. Long work is divided: other requests run in between.

/** Units that are rewritten at once. */
const piece = 8_192;
/** Longer matches need the whole text. */
const longestInPieces = 8_192;
/** Units before and after a boundary that are read for a match over it. */
const reach = 8_192;
const mostMilliseconds = 20;

/** Work that can be interrupted where it yields. */
export type Work<Result> = Generator<void, Result>;

type Replace<Match> = (match: Match, text: string) => string;

/**
 * Does the work: at once when it is short, otherwise with turns of the event loop after every 20 ms.
 *
 * @throws what the work throws, or the reason of the signal
 */
export function inTurns<Result>(work: Work<Result>, signal?: AbortSignal): Result | Promise<Result> {
  const turn = (): IteratorResult<void, Result> => {
    const end = performance.now() + mostMilliseconds;
    let step = work.next();
    while (step.done !== true && performance.now() < end) step = work.next();
    return step;
  };
  const first = turn();
  if (first.done === true) return first.value;
  return new Promise((resolve, reject) => {
    const next = () => {
      try {
        signal?.throwIfAborted();
        const step = turn();
        if (step.done === true) resolve(step.value);
        else setImmediate(next);
      } catch (error) {
        reject(error);
      }
    };
    setImmediate(next);
  });
}

/** `rewriteWhole` in pieces. */
export function* rewriteLong<Match extends Found>(
  finder: Finder<Match>,
  text: string,
  replace: Replace<Match>,
): Work<string> {
  yield;
  if (text.length <= piece || finder.longest > longestInPieces) return rewriteWhole(finder, text, replace);
  const rewriter = new StreamRewriter(finder, replace);
  let rewritten = '';
  for (let at = 0; at < text.length; at += piece) {
    rewritten += rewriter.push(text.slice(at, at + piece));
    if (rewritten.length > mostRewritten) throw new Error(`the text becomes longer than ${mostRewritten} characters`);
    yield;
  }
  return rewritten + rewriter.end();
}

/** @param texts of the parts, as they are now */
export function* rewriteParts<Match extends Found>(
  parts: readonly TextPart[],
  texts: readonly string[],
  finder: Finder<Match>,
  replace: Replace<Match>,
  isRead: (part: TextPart) => boolean = () => true,
): Work<readonly string[]> {
  const rewritten: string[] = [];
  for (const [index, text] of texts.entries()) {
    const part = parts[index];
    rewritten.push(part !== undefined && isRead(part) ? yield* rewriteLong(finder, text, replace) : text);
  }
  return yield* rewriteJoints(parts, rewritten, finder, replace, isRead);
}

/** Rewrites only matches that extend over several parts. */
export function* rewriteJoints<Match extends Found>(
  parts: readonly TextPart[],
  texts: readonly string[],
  finder: Finder<Match>,
  replace: Replace<Match>,
  isRead: (part: TextPart) => boolean = () => true,
): Work<readonly string[]> {
  const runs = joinedRuns(parts, isRead);
  if (runs.length === 0) return texts;
  const rewritten = [...texts];
  for (const run of runs) {
    const own = run.map((index) => texts[index] ?? '');
    const found = yield* matchesOverJoints(own, finder, replace);
    if (found.length === 0) continue;
    for (const [at, text] of withReplacements(own, found).entries()) rewritten[run[at] ?? -1] = text;
  }
  return rewritten;
}

/** The indexes of parts that continue each other, of two and more. */
export function joinedRuns(parts: readonly TextPart[], isRead: (part: TextPart) => boolean): readonly number[][] {
  const runs = new Map<number, number[]>();
  for (const [index, part] of parts.entries()) {
    if (part.follows === undefined || !isRead(part)) continue;
    const run = runs.get(part.follows) ?? [part.follows];
    runs.delete(part.follows);
    run.push(index);
    runs.set(index, run);
  }
  return [...runs.values()];
}

/** A match in the joined texts. */
interface JointMatch extends Found {
  readonly replacement: string;
}

function* matchesOverJoints<Match extends Found>(
  texts: readonly string[],
  finder: Finder<Match>,
  replace: Replace<Match>,
): Work<JointMatch[]> {
  const whole = texts.join('');
  const joints = jointsOf(texts);
  const found: JointMatch[] = [];
  let decided = 0;
  for (let at = 0; at < joints.length; ) {
    yield;
    const first = joints[at] ?? 0;
    // One window for all joints that are near: texts may be as short as one character.
    let last = first;
    while (at < joints.length && (joints[at] ?? 0) <= first + reach) {
      last = joints[at] ?? 0;
      at += 1;
    }
    const start = Math.max(decided, first - reach);
    const window = whole.slice(start, last + reach);
    const next = finder.scan(window);
    for (let match = next(0); match !== undefined && start + match.start < last; match = next(match.end)) {
      if (!isOverJoint(joints, start + match.start, start + match.end)) continue;
      decided = start + match.end;
      found.push({ start: start + match.start, end: decided, replacement: replace(match, window) });
    }
  }
  return found;
}

/** Of what was found in the joined texts, what extends over several of them. */
export function overJoints<Match extends Found>(texts: readonly string[], found: readonly Match[]): readonly Match[] {
  const joints = jointsOf(texts);
  return found.filter(({ start, end }) => isOverJoint(joints, start, end));
}

/** Where a text begins that continues another, in the joined texts. */
function jointsOf(texts: readonly string[]): readonly number[] {
  let end = 0;
  return texts.slice(0, -1).map((text) => {
    end += text.length;
    return end;
  });
}

function isOverJoint(joints: readonly number[], start: number, end: number): boolean {
  let low = 0;
  let high = joints.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((joints[middle] ?? 0) <= start) low = middle + 1;
    else high = middle;
  }
  return (joints[low] ?? end) < end;
}

/** A replacement stands in the text where its match begins; the rest of the match is removed from the texts after it. */
export function withReplacements(texts: readonly string[], found: readonly JointMatch[]): readonly string[] {
  let start = 0;
  let at = 0;
  return texts.map((text) => {
    const end = start + text.length;
    let rewritten = '';
    let from = start;
    for (; at < found.length; at += 1) {
      const match = found[at];
      if (match === undefined || match.start >= end) break;
      if (match.start >= start) rewritten += text.slice(from - start, match.start - start) + match.replacement;
      from = Math.max(from, Math.min(match.end, end));
      if (match.end > end) break;
    }
    rewritten += text.slice(from - start);
    start = end;
    return rewritten;
  });
}
