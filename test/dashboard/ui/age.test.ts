import { describe, expect, it } from 'vitest';
import { ageOf, isOld } from '../../../dashboard/src/ui/age.ts';

describe('the age of figures', () => {
  it('is in whole seconds, and not negative when the clock was set back', () => {
    expect(ageOf(1000, 9999)).toBe(8000);
    expect(ageOf(5000, 1000)).toBe(0);
  });

  it('is old after a failed read, or when several refreshes are missing', () => {
    expect(isOld({ age: 0, refreshMs: 5000, hasFailed: true })).toBe(true);
    expect(isOld({ age: 15_000, refreshMs: 5000, hasFailed: false })).toBe(false);
    expect(isOld({ age: 16_000, refreshMs: 5000, hasFailed: false })).toBe(true);
  });
});
