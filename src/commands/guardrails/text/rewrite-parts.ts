/**
 * Rewrites the texts of a request: each alone, and then what extends over the boundary of two texts of which one
 * continues the other. Long work is divided: other requests run in between.
 */
import type { TextPart } from '../guarded-text.ts';
import { type Finder, type Found, mostRewritten, rewriteWhole } from './finder.ts';
import { StreamRewriter } from './stream-rewriter.ts';

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
export interface JointMatch extends Found {
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
