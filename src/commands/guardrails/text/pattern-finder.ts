/**
 * Finds matches of a regular expression with re2js, which reads a text in time linear in its length whatever the pattern
 * is. Look-around and back references do not exist in this syntax.
 */
import { RE2JS } from 're2js';
import { GuardrailConfigError } from '../guardrail-type.ts';
import type { Finder, Found } from './finder.ts';
import { longestMatch } from './pattern-length.ts';

/** One search is linear; many matches of an unbounded pattern can each read the rest of the text. */
const mostMilliseconds = 500;
const mostInstructions = 20_000;
const longestPattern = 2_000;

export interface PatternMatch extends Found {
  /** The whole match, then the groups. A group without part in the match is empty. */
  readonly groups: readonly string[];
}

export interface PatternFinder extends Finder<PatternMatch> {
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
