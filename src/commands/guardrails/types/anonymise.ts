/** Anonymises the texts of a request: found values become placeholders, or are hidden without a way back. */

import { createHash } from 'node:crypto';
import type { EvaluationContext, TextPart } from '../guardrail-type.ts';
import type { Placeholders, RecordedPlaceholder } from '../placeholders.ts';
import { escapePattern, type Finder, type Found } from '../text/finder.ts';
import { rewriteParts, type Work } from '../text/stream-rewriter.ts';

/** What stands instead of a value. */
export type Hide = (entity: string, value: string) => string;

/**
 * @param placeholders of the exchange when values are restored in the answer
 */
export function hideWith(operator: Operator, placeholders: Placeholders | undefined): Hide {
  return placeholders !== undefined && operator === 'replace'
    ? (entity, value) => placeholders.placeholderOf(entityName(entity), value)
    : (entity, value) => hiddenValue(operator, entityName(entity), value);
}

/**
 * Replaces the values that earlier turns anonymised: the client saw them, and its next request contains them. Texts of
 * the form of a placeholder that the request contains are reserved first.
 */
export function hideKnownValues(
  parts: readonly TextPart[],
  { placeholders }: Pick<EvaluationContext, 'placeholders'>,
): Work<readonly string[]> {
  for (const { text } of parts) placeholders.reserve(text);
  return hideRecorded(
    parts,
    parts.map(({ text }) => text),
    placeholders,
  );
}

/** A value that was found once is replaced wherever it occurs, also where nothing recognises it. */
export function* hideRecorded(
  parts: readonly TextPart[],
  texts: readonly string[],
  placeholders: Placeholders,
): Work<readonly string[]> {
  const known = knownValueFinder(placeholders.recorded());
  if (known === undefined) return texts;
  return yield* rewriteParts(parts, texts, known, ({ placeholder }) => placeholder);
}

/** The texts that differ from those of the parts, by index. */
export function changedTexts(parts: readonly TextPart[], texts: readonly string[]): Map<number, string> {
  const changed = new Map<number, string>();
  for (const [index, text] of texts.entries()) {
    if (text !== parts[index]?.text) changed.set(index, text);
  }
  return changed;
}

/** Placeholders consist of capital letters, digits and underscores. */
function entityName(entity: string): string {
  const name = entity
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, '_')
    .slice(0, 40);
  return /^[A-Z]/.test(name) ? name : `X_${name}`.slice(0, 40);
}

/**
 * Finds values that have a placeholder, wherever they occur. Placeholders are found too, as themselves: a short value
 * within one is no value.
 */
interface KnownValueMatch extends Found {
  readonly placeholder: string;
}

/** Undefined when there are no values. Of values that begin at the same place the longest is found. */
function knownValueFinder(known: readonly RecordedPlaceholder[]): Finder<KnownValueMatch> | undefined {
  const byValue = new Map(known.filter(({ value }) => value !== '').map((one) => [one.value, one.placeholder]));
  if (byValue.size === 0) return undefined;
  const placeholders = known.map(({ placeholder }) => placeholder);
  const values = [...placeholders, ...byValue.keys()].sort((one, other) => other.length - one.length);
  // Only literal alternatives: no backtracking beyond one value.
  const pattern = new RegExp(values.map(escapePattern).join('|'), 'g');
  return {
    longest: values[0]?.length ?? 0,
    scan: (text) => (from) => {
      pattern.lastIndex = from;
      const match = pattern.exec(text);
      if (match === null) return undefined;
      const [value] = match;
      return { start: match.index, end: match.index + value.length, placeholder: byValue.get(value) ?? value };
    },
  };
}

/** What stands in a text instead of a value that was found in it. */
export const operators = ['replace', 'mask', 'redact', 'hash'] as const;
type Operator = (typeof operators)[number];

/** Without a way back: the value is not recorded. */
function hiddenValue(operator: Operator, entity: string, value: string): string {
  if (operator === 'redact') return '';
  if (operator === 'mask') return masked(value);
  if (operator === 'hash') return createHash('sha256').update(value).digest('hex');
  return `<${entity}>`;
}

const shown = 4;

/** All letters and digits but the last four, of values with more than eight. */
function masked(value: string): string {
  const signs = value.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  let hidden = signs > 2 * shown ? signs - shown : signs;
  return value.replace(/[\p{L}\p{N}]/gu, (sign) => {
    hidden -= 1;
    return hidden >= 0 ? '*' : sign;
  });
}
