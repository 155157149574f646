import { describe, expect, test } from 'vitest';
import { describeProblem } from '../../src/config/problem.ts';
import { configFrom, problemsFrom, type Written } from './load.ts';

describe('the response cache', () => {
  test('is off, and has bounds', () => {
    expect(configFrom({}).responseCache).toEqual({
      enabled: false,
      ttlSeconds: 3600,
      maxTtlSeconds: 2_592_000,
      maxEntries: 100_000,
      maxMemoryBytes: 64 * 1024 ** 2,
      maxAnswerBytes: 1024 ** 2,
    });
  });

  test('is set in the file', () => {
    const response =
      'enabled: on, ttl_seconds: 5, max_ttl_seconds: 6, max_entries: 7, max_memory_bytes: 8M, max_answer_bytes: 9K';
    expect(configFrom({ yaml: `cache: { response: { ${response} } }` }).responseCache).toEqual({
      enabled: true,
      ttlSeconds: 5,
      maxTtlSeconds: 6,
      maxEntries: 7,
      maxMemoryBytes: 8 * 1024 ** 2,
      maxAnswerBytes: 9 * 1024,
    });
  });

  test.each<[string, Written, object]>([
    [
      'its own variables',
      { env: { RESPONSE_CACHE_ENABLED: 'on', RESPONSE_CACHE_TTL: '5' } },
      { enabled: true, ttlSeconds: 5 },
    ],
    [
      'other names',
      { env: { RESPONSE_CACHE_SIMPLE_ENABLED: 'true', REDIS_TTL_RESPONSES: '6' } },
      { enabled: true, ttlSeconds: 6 },
    ],
    [
      'its own variables before other names',
      { env: { RESPONSE_CACHE_TTL: '5', REDIS_TTL_RESPONSES: '6' } },
      { ttlSeconds: 5 },
    ],
    ['an empty variable as none', { env: { RESPONSE_CACHE_TTL: '', REDIS_TTL_RESPONSES: '6' } }, { ttlSeconds: 6 }],
    ['other names in .env', { dotenv: 'REDIS_TTL_RESPONSES=6' }, { ttlSeconds: 6 }],
    [
      'another name before the file',
      { env: { REDIS_TTL_RESPONSES: '6' }, yaml: 'cache: { response: { ttl_seconds: 9 } }' },
      { ttlSeconds: 6 },
    ],
  ])('reads %s', (_what, written, expected) => {
    expect(configFrom(written).responseCache).toMatchObject(expected);
  });

  test.each<[Written, string]>([
    [
      { env: { REDIS_TTL_RESPONSES: 'soon' } },
      'cache.response.ttl_seconds (REDIS_TTL_RESPONSES): expected a whole number from 1 to 315360000, got "soon"',
    ],
    [
      { env: { RESPONSE_CACHE_TTL: '10', RESPONSE_CACHE_MAX_TTL: '9' } },
      'cache.response.ttl_seconds (RESPONSE_CACHE_TTL): expected at most max_ttl_seconds (9), got 10',
    ],
  ])('names the variable with a wrong value', (written, problem) => {
    expect(problemsFrom(written).map(describeProblem)).toEqual([problem]);
  });
});
