/** Finds what a rule describes in a text. Whole texts and streams are rewritten with the same finders. */
import { RE2JS } from 're2js';
import { z } from 'zod';
import { GuardrailConfigError } from '../guardrail-type.ts';
import { longestPlaceholder, type Placeholders } from '../placeholders.ts';

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

// Finds a fixed text, optionally without regard to case (simple case folding of Unicode, which keeps lengths).

/** @param literal not empty */
export function literalFinder(literal: string, ignoreCase: boolean): Finder {
  return ignoreCase ? caselessFinder(literal) : exactFinder(literal);
}

function exactFinder(literal: string): Finder {
  const { length } = literal;
  return {
    longest: length,
    scan: (text) => (from) => {
      const start = text.indexOf(literal, from);
      return start === -1 ? undefined : { start, end: start + length };
    },
    undecidedFrom(text, from) {
      for (let at = Math.max(from, text.length - length + 1); at < text.length; at += 1) {
        if (literal.startsWith(text.slice(at))) return at;
      }
      return text.length;
    },
  };
}

function caselessFinder(literal: string): Finder {
  const { length } = literal;
  // A literal without alternatives: no backtracking.
  const pattern = new RegExp(escapePattern(literal), 'giu');
  const wanted = Array.from({ length }, (_, at) => folded(literal, at));
  return {
    longest: length,
    scan: (text) => (from) => {
      pattern.lastIndex = from;
      const match = pattern.exec(text);
      return match === null ? undefined : { start: match.index, end: match.index + match[0].length };
    },
    undecidedFrom(text, from) {
      for (let at = Math.max(from, text.length - length + 1); at < text.length; at += 1) {
        if (mayBeginWith(wanted, text, at)) return at;
      }
      return text.length;
    },
  };
}

function mayBeginWith(wanted: readonly (string | undefined)[], text: string, start: number): boolean {
  for (let at = start; at < text.length; at += 1) {
    const unit = folded(text, at);
    const other = wanted[at - start];
    if (unit !== undefined && other !== undefined && unit !== other) return false;
  }
  return true;
}

/** Units that differ here are different without regard to case. Undefined: may equal any unit. */
function folded(text: string, at: number): string | undefined {
  const code = text.charCodeAt(at);
  if (code < 0x80) return text.charAt(at).toLowerCase();
  if ((code & 0xf800) === 0xd800) return undefined;
  const upper = text.charAt(at).toUpperCase();
  const lower = upper.toLowerCase();
  return upper.length === 1 && lower.length === 1 ? lower : undefined;
}

// Finds matches of a regular expression with re2js, which reads a text in time linear in its length whatever the pattern
// is. Look-around and back references do not exist in this syntax.

/** One search is linear; many matches of an unbounded pattern can each read the rest of the text. */
const mostMilliseconds = 500;
const mostInstructions = 20_000;
const longestPattern = 2_000;

export interface PatternMatch extends Found {
  /** The whole match, then the groups. A group without part in the match is empty. */
  readonly groups: readonly string[];
}

interface PatternFinder extends Finder<PatternMatch> {
  readonly groupCount: number;
}

/** @throws GuardrailConfigError when the pattern is invalid, too large, matches the empty text, or no character */
export function patternFinder(pattern: string, ignoreCase: boolean): PatternFinder {
  const compiled = compile(pattern, ignoreCase);
  const longest = longestMatch(compiled);
  if (longest === 0) {
    throw new GuardrailConfigError(`the pattern '${pattern}' cannot match any character`);
  }
  const groupCount = compiled.groupCount();
  return {
    longest,
    groupCount,
    scan(text) {
      const matcher = compiled.matcher(text);
      const limit = performance.now() + mostMilliseconds;
      return (from) => {
        let at = from;
        while (at <= text.length && matcher.find(at)) {
          if (performance.now() > limit)
            throw new Error(`the pattern took more than ${mostMilliseconds} ms for a text`);
          const start = matcher.start();
          const end = matcher.end();
          if (end > start) {
            const groups = Array.from({ length: groupCount + 1 }, (_, group) => matcher.group(group) ?? '');
            return { start, end, groups };
          }
          // Empty matches are not reported. A pattern such as `\b|a` may have them besides others.
          at = end + 1;
        }
        return undefined;
      };
    },
  };
}

function compile(pattern: string, ignoreCase: boolean): RE2JS {
  if (pattern.length > longestPattern) {
    throw new GuardrailConfigError(`the pattern has more than ${longestPattern} characters`);
  }
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(pattern, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (error) {
    throw new GuardrailConfigError(`the pattern '${pattern}' is invalid: ${messageOf(error)}`);
  }
  if (compiled.programSize() > mostInstructions)
    throw new GuardrailConfigError(`the pattern '${pattern}' is too large`);
  if (compiled.test('')) throw new GuardrailConfigError(`the pattern '${pattern}' matches the empty text`);
  return compiled;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

// The greatest length of a match of a compiled pattern, computed from its program.

/** The part of re2js's program that is read. Its operations have the numbers of Go's package regexp/syntax. */
const programSchema = z.object({
  start: z.int(),
  inst: z.array(z.object({ op: z.int(), out: z.int(), arg: z.int(), runes: z.instanceof(Int32Array) })),
});

const alt = 1;
const altMatch = 2;
const capture = 3;
const emptyWidth = 4;
const fail = 5;
const match = 6;
const nop = 7;
const rune = 8;
const rune1 = 9;
const runeAny = 10;
const runeAnyNotNewline = 11;

const lastOfBasicPlane = 0xffff;

/** In UTF-16 units; Infinity when there is no bound, or when the program contains an operation unknown here. */
function longestMatch(pattern: RE2JS): number {
  const parsed = programSchema.safeParse(pattern.re2().prog);
  if (!parsed.success) return Number.POSITIVE_INFINITY;
  const { start, inst } = parsed.data;
  const known = new Map<number, number>();
  const open = new Set<number>();
  const work = [start];
  while (work.length > 0) {
    const pc = work.at(-1) ?? start;
    const one = inst[pc];
    if (one === undefined) return Number.POSITIVE_INFINITY;
    const next = nextOf(one);
    if (next === undefined) return Number.POSITIVE_INFINITY;
    const unknown = next.filter((target) => !known.has(target));
    if (known.has(pc) || unknown.length === 0) {
      if (!known.has(pc)) known.set(pc, lengthFrom(one, next, known));
      open.delete(pc);
      work.pop();
      continue;
    }
    // A way back to an instruction before this one is a repetition without a bound.
    if (unknown.some((target) => open.has(target) || target === pc)) return Number.POSITIVE_INFINITY;
    open.add(pc);
    work.push(...unknown.slice(0, 1));
  }
  return known.get(start) ?? Number.POSITIVE_INFINITY;
}

type Instruction = z.infer<typeof programSchema>['inst'][number];

/** The instructions after this one; undefined for an unknown operation. */
function nextOf({ op, out, arg }: Instruction): number[] | undefined {
  if (op === alt || op === altMatch) return [out, arg];
  if (op === fail || op === match) return [];
  return op === capture || op === emptyWidth || op === nop || isRune(op) ? [out] : undefined;
}

function lengthFrom(one: Instruction, next: readonly number[], known: ReadonlyMap<number, number>): number {
  const after = Math.max(0, ...next.map((target) => known.get(target) ?? 0));
  return isRune(one.op) ? unitsOf(one) + after : after;
}

function isRune(op: number): boolean {
  return op === rune || op === rune1 || op === runeAny || op === runeAnyNotNewline;
}

function unitsOf({ op, runes }: Instruction): number {
  if (op === runeAny || op === runeAnyNotNewline) return 2;
  return runes.every((code) => code <= lastOfBasicPlane) ? 1 : 2;
}

/** Finds the placeholders of an exchange in its answer. */
export interface PlaceholderMatch extends Found {
  readonly value: string;
}

const open = '<';
const close = '>';
const name = /^<[A-Z0-9_]*$/;

export function placeholderFinder(placeholders: Placeholders): Finder<PlaceholderMatch> {
  return {
    longest: longestPlaceholder,
    scan: (text) => (from) => {
      for (let start = text.indexOf(open, from); start !== -1; start = text.indexOf(open, start + 1)) {
        const end = text.indexOf(close, start) + 1;
        if (end === 0) return undefined;
        if (end - start > longestPlaceholder) continue;
        const value = placeholders.valueOf(text.slice(start, end));
        if (value !== undefined) return { start, end, value };
      }
      return undefined;
    },
    /** A placeholder contains no second `<`, so only the last one can be incomplete. */
    undecidedFrom(text, from) {
      const start = text.lastIndexOf(open);
      const isOpen = start >= from && text.length - start < longestPlaceholder && name.test(text.slice(start));
      return isOpen ? start : text.length;
    },
  };
}

/** A pattern that matches exactly this text. */
export function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
