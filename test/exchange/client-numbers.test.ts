/** Numbers that a client may write however it likes: what is recorded of them stays an exact integer. */
import { describe, expect, test } from 'vitest';
import { forwardOperations, unitsAsked } from '../../src/commands/exchange/forward-operations.ts';
import { answersAsked, expectedOutput, outputLimit } from '../../src/commands/exchange/token-estimate.ts';

describe.each([1e300, Number.MAX_VALUE, 9_007_199_254_740_993, 1e12])('%d', (huge) => {
  test.each(['max_tokens', 'max_completion_tokens', 'max_output_tokens'])(
    'as %s allows a long answer, and no longer one',
    (name) => {
      expect(outputLimit({ [name]: huge })).toBe(100_000_000);
      expect(Number.isSafeInteger(expectedOutput({ [name]: huge, n: 1000 }))).toBe(true);
    },
  );

  test.each(['n', 'best_of'])('as %s counts as one answer', (name) => {
    expect(answersAsked({ [name]: huge })).toBe(1);
  });

  test('of images is counted up to a bound', () => {
    const images = forwardOperations.find(({ family }) => family === 'images');
    if (images === undefined) throw new Error('no operation makes images');
    expect(unitsAsked(images, { n: huge })).toEqual({ outputImages: 1_000_000 });
  });
});
