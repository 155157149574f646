/** Finds a fixed text, optionally without regard to case (simple case folding of Unicode, which keeps lengths). */
import { escapePattern } from './escape-pattern.ts';
import type { Finder } from './finder.ts';

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
