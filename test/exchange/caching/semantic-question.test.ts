import { describe, expect, it } from 'vitest';
import { thresholdOf } from '../../../src/commands/exchange/caching/request-digest.ts';

const settings = { threshold: 0.9, ttlSeconds: 1, maxMessages: 3, excludeSystemPrompt: false };

describe('thresholdOf', () => {
  it.each([
    [undefined, 'user_path', 0.9],
    [0.5, 'user_path', 0.5],
    [0.5, 'key', 0.5],
    [0.95, 'shared', 0.95],
    // Otherwise a request could read the answers of other callers, on any subject.
    [0, 'shared', 0.9],
  ] as const)('of a request with %j in the scope %s is %d', (given, scope, threshold) => {
    expect(thresholdOf(given, settings, { scope })).toBe(threshold);
  });
});
