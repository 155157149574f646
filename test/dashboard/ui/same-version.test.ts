import { expect, it } from 'vitest';
import { isSameVersion } from '../../../dashboard/src/ui/same-version.ts';

it('compares as JSON, whatever the order of members', () => {
  expect(isSameVersion({ a: 1, b: { c: [1, 2], d: undefined } }, { b: { c: [1, 2] }, a: 1 })).toBe(true);
  expect(isSameVersion(undefined, null)).toBe(true);
  expect(isSameVersion({ a: [1, 2] }, { a: [2, 1] })).toBe(false);
  expect(isSameVersion({ a: 1 }, { a: '1' })).toBe(false);
  expect(isSameVersion({ a: 1 }, { a: 1, b: null })).toBe(false);
});
