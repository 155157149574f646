import { describe, expect, test } from 'vitest';
import { configFrom, problemsFrom } from './load.ts';

describe('rules about headers in numbered variables', () => {
  test('make labels of headers, in the order of their numbers', () => {
    const { tagging } = configFrom({
      env: {
        TAGGING_HEADER_10: 'X-Ten',
        TAGGING_HEADER_2: 'X-Two',
        TAGGING_HEADER_2_PREFIX: 'team:',
        TAGGING_HEADER_2_DELIMITER: ';',
        TAGGING_HEADER_2_DONOTPASS: 'true',
      },
    });
    expect(tagging).toEqual([
      { header: 'x-two', prefix: 'team:', delimiter: ';', doNotPass: true },
      { header: 'x-ten', prefix: '', delimiter: ',', doNotPass: false },
    ]);
  });

  test('come behind those of the file, and in place of one for the same header', () => {
    const yaml = 'tagging:\n  headers:\n    - header: X-File\n    - header: X-Both\n      prefix: "file:"\n';
    const { tagging } = configFrom({ yaml, env: { TAGGING_HEADER_1: 'x-both' } });
    expect(tagging.map(({ header, prefix }) => [header, prefix])).toEqual([
      ['x-file', ''],
      ['x-both', ''],
    ]);
  });

  test('name the headers of sessions', () => {
    const { session } = configFrom({
      env: { SESSION_HEADER_1: 'X-Mine', SESSION_HEADER_2: 'X-User', SESSION_HEADER_2_TRANSFORM: 'session-uuid' },
    });
    expect(session).toEqual({
      enabled: true,
      autoDetect: false,
      builtinRules: true,
      headers: [
        { header: 'x-mine', transform: undefined },
        { header: 'x-user', transform: 'session-uuid' },
      ],
    });
  });

  test('that have no header, or no valid number, are ignored', () => {
    const env = { TAGGING_HEADER_1: ' ', TAGGING_HEADER_2_PREFIX: 'x', TAGGING_HEADER_X: 'x', TAGGING_HEADER_01: 'x' };
    expect(configFrom({ env }).tagging).toEqual([]);
  });

  test.each([
    [{ TAGGING_HEADER_1: 'no header' }, 'tagging.headers.0.header', 'TAGGING_HEADER_1'],
    [
      { TAGGING_HEADER_3: 'x', TAGGING_HEADER_3_DONOTPASS: 'perhaps' },
      'tagging.headers.0.do_not_pass',
      'TAGGING_HEADER_3',
    ],
    [{ SESSION_HEADER_1: 'x', SESSION_HEADER_1_TRANSFORM: 'upper' }, 'session.headers.0.transform', 'SESSION_HEADER_1'],
  ])('that are invalid are reported with their place: %j', (env, path, variable) => {
    expect(problemsFrom({ env })).toMatchObject([{ path, variable, source: 'environment' }]);
  });
});

describe('the key of the credentials', () => {
  test('is read from the environment, and a short one is refused without being shown', () => {
    const key = 'a key of at least thirty-two characters';
    expect(configFrom({ env: { CREDENTIALS_KEY: key } }).credentials).toEqual({ key, keyFile: undefined });
    const [problem] = problemsFrom({ env: { CREDENTIALS_KEY: 'short-secret' } });
    expect(problem).toMatchObject({ path: 'credentials.key', variable: 'CREDENTIALS_KEY' });
    expect(problem?.message).not.toContain('short-secret');
  });

  test('is in a file beside the configuration when that is relative', () => {
    const { keyFile } = configFrom({ env: { CREDENTIALS_KEY_FILE: 'secrets/key' } }).credentials;
    expect(keyFile).toMatch(/^\/.*secrets\/key$/);
  });
});
