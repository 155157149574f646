/**
 * Finds values that have a placeholder, wherever they occur. Placeholders are found too, as themselves: a short value
 * within one is no value.
 */
import type { RecordedPlaceholder } from '../placeholders.ts';
import { escapePattern } from './escape-pattern.ts';
import type { Finder, Found } from './finder.ts';

export interface KnownValueMatch extends Found {
  readonly placeholder: string;
}

/** Undefined when there are no values. Of values that begin at the same place the longest is found. */
export function knownValueFinder(known: readonly RecordedPlaceholder[]): Finder<KnownValueMatch> | undefined {
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
