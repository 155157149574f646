/** Finds the placeholders of an exchange in its answer. */
import { longestPlaceholder, type Placeholders } from '../placeholders.ts';
import type { Finder, Found } from './finder.ts';

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
