/** Restores the values of placeholders in a whole answer: in all its strings, also those that repeat the request. */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import type { Placeholders } from '../placeholders.ts';
import { type PlaceholderMatch, placeholderFinder, rewriteWhole } from '../text/finder.ts';
import { jsonLiterals, withLiterals } from '../text/json-text.ts';

/** Members whose strings are JSON texts. */
const jsonMembers: ReadonlySet<string> = new Set(['arguments', 'partial_json']);
const deepest = 1_000;

/** The answer with the values; the same object when it contains no placeholder. */
export function restoreValues(answer: unknown, placeholders: Placeholders): unknown {
  if (placeholders.size === 0) return answer;
  const finder = placeholderFinder(placeholders);
  const original = ({ value }: PlaceholderMatch) => value;
  const restoreJson = (json: string): string => {
    const literals = jsonLiterals(json);
    const changed = new Map(
      literals.flatMap((literal) => {
        const text = rewriteWhole(finder, literal.text, original);
        return text === literal.text ? [] : [[literal, text] as const];
      }),
    );
    return changed.size === 0 ? json : withLiterals(json, literals, changed);
  };
  const restore = (value: unknown, name: string, depth: number): unknown => {
    if (typeof value === 'string') {
      return jsonMembers.has(name) ? restoreJson(value) : rewriteWhole(finder, value, original);
    }
    if (depth > deepest) throw new Error(`the answer is nested more than ${deepest} levels deep`);
    if (Array.isArray(value)) {
      const restored = value.map((one) => restore(one, '', depth + 1));
      return restored.some((one, index) => one !== value[index]) ? restored : value;
    }
    if (!isObject(value) || isExactNumber(value)) return value;
    const entries = Object.entries(value).map(
      ([key, one]) => [key, one, rewriteWhole(finder, key, original), restore(one, key, depth + 1)] as const,
    );
    if (entries.every(([key, one, name, restored]) => key === name && one === restored)) return value;
    return Object.fromEntries(entries.map(([, , name, restored]) => [name, restored]));
  };
  return restore(answer, '', 0);
}
