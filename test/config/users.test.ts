import { describe, expect, test } from 'vitest';
import { describeProblem } from '../../src/config/problem.ts';
import { configFrom, problemsFrom } from './load.ts';

const policy = { path: '/team', allowed_models: ['openai/', 'gpt'], description: 'a team' };
const read = { path: '/team', allowedModels: ['openai/', 'gpt'], description: 'a team' };

describe('policies of user paths', () => {
  test('are none unless some are declared', () => {
    expect(configFrom({}).users).toEqual([]);
    expect(configFrom({ env: { USERS: '' } }).users).toEqual([]);
  });

  test('are a list in the file, or a JSON array in a variable, which wins', () => {
    const yaml = 'users:\n  - path: /file\n    allowed_models: [openai/, gpt]\n';
    expect(configFrom({ yaml }).users).toEqual([{ ...read, path: '/file', description: undefined }]);
    expect(configFrom({ yaml, env: { USERS: JSON.stringify([policy]) } }).users).toEqual([read]);
    expect(configFrom({ dotenv: `USERS='${JSON.stringify([policy])}'` }).users).toEqual([read]);
  });

  test('may restrict nothing', () => {
    expect(configFrom({ env: { USERS: '[{"path":"a","allowed_models":[]}]' } }).users).toEqual([
      { path: 'a', allowedModels: [], description: undefined },
    ]);
  });

  test.each([
    ['{', 'users (USERS): expected a list of mappings (in a variable: a JSON array of objects), got "{"'],
    ['{}', 'users (USERS): expected a list of mappings (in a variable: a JSON array of objects), got {}'],
    ['[1]', 'users.0 (USERS): expected a mapping of settings, got 1'],
    [
      '[{"path":"/a"}]',
      'users.0.allowed_models (USERS): expected a list of selectors, or text with commas, but nothing is set',
    ],
    [
      '[{"path":"/a b","allowed_models":[]}]',
      'users.0.path (USERS): expected a user path such as /team/alpha, got "/a b"',
    ],
    ['[{"path":"/a","allowed_models":[],"model":1}]', 'users.0.model (USERS): unknown key "model"'],
  ])('that are wrong are reported with their place: %s', (text, message) => {
    const [problem] = problemsFrom({ env: { USERS: text } });
    expect(problem && describeProblem(problem)).toContain(message);
  });
});
