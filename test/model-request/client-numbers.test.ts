/** Numbers of any size from a client: the recorded ones are exact integers. */
import { describe, expect, test } from 'vitest';
import { forwardOperations, requestedUnits } from '../../src/commands/model-request/forward-operations.ts';
import { expectedOutput, outputLimit, requestedAnswers } from '../../src/commands/model-request/usage.ts';

describe.each([1e300, Number.MAX_VALUE, 2 ** 53, 1e12])('%d', (huge) => {
  test.each(['max_tokens', 'max_completion_tokens', 'max_output_tokens'])(
    'as %s allows a long answer, and no longer one',
    (name) => {
      expect(outputLimit({ [name]: huge })).toBe(100_000_000);
      expect(Number.isSafeInteger(expectedOutput({ [name]: huge, n: 1000 }))).toBe(true);
    },
  );

  test.each(['n', 'best_of'])('as %s counts as one answer', (name) => {
    expect(requestedAnswers({ [name]: huge })).toBe(1);
  });

  test('of images is counted up to a bound', () => {
    const images = forwardOperations.find(({ family }) => family === 'images');
    if (images === undefined) throw new Error('no operation makes images');
    expect(requestedUnits(images, { n: huge })).toEqual({ outputImages: 1_000_000 });
  });
});

describe('the output that a request allows', () => {
  test('is the longest of the limits that it names', () => {
    expect(outputLimit({ max_tokens: 1, max_completion_tokens: 5000 })).toBe(5000);
    expect(outputLimit({ max_completion_tokens: 1, max_tokens: 5000 })).toBe(5000);
    expect(outputLimit({ max_tokens: 0, max_output_tokens: 'many' })).toBeUndefined();
  });

  test.each(['n_predict', 'num_predict', 'max_new_tokens'])('includes %s, which local servers prefer', (name) => {
    expect(outputLimit({ max_tokens: 1, [name]: 1000 })).toBe(1000);
    expect(outputLimit({ max_tokens: 1, [name]: -1 })).toBeUndefined();
  });

  test('includes the options that Ollama takes', () => {
    expect(outputLimit({ max_tokens: 1, options: { num_predict: 1000 } })).toBe(1000);
    expect(outputLimit({ max_tokens: 1, options: { num_predict: -1 } })).toBeUndefined();
  });

  test('is so many answers for each prompt of a list', () => {
    expect(requestedAnswers({ prompt: ['a', 'b', 'c'], best_of: 4, n: 2 })).toBe(12);
    expect(requestedAnswers({ prompt: [[1, 2], [3]] })).toBe(2);
    expect(requestedAnswers({ prompt: [1, 2, 3] })).toBe(1);
    expect(requestedAnswers({ prompt: 'a' })).toBe(1);
  });
});
