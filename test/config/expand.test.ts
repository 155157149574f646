import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expandVariables } from '../../src/config/sources.ts';

const env = { HOST: 'h', EMPTY: '', PORT: '81', ZIP: '007', BIG: '12345678901234567890', YES: 'true' };

describe('references to variables in a settings file', () => {
  test.each([
    ['${HOST}', 'h'],
    ['http://${HOST}:${PORT}/v1', 'http://h:81/v1'],
    ['${NOPE:-fallback}', 'fallback'],
    ['${EMPTY:-fallback}', 'fallback'],
    ['${HOST:-fallback}', 'h'],
    ['${NOPE:-}', ''],
    ['${EMPTY}', ''],
    ['${NOPE:-http://a/b:c}', 'http://a/b:c'],
    ['${NOPE:-a\\}b}', 'a}b'],
    ['$${HOST}', '${HOST}'],
    ['$HOST and 5$', '$HOST and 5$'],
    ['$${file:/x} and $${', '${file:/x} and ${'],
  ])('%s becomes %s', (text, expected) => {
    expect(expandVariables(text, env)).toEqual({ value: expected, missing: [], unknown: [] });
  });

  test('a variable that is not set is reported with the place of the reference', () => {
    expect(expandVariables({ a: ['x', { b: '${NOPE}!' }] }, env)).toEqual({
      value: { a: ['x', { b: '!' }] },
      missing: [{ path: ['a', '1', 'b'], variable: 'NOPE' }],
      unknown: [],
    });
  });

  test.each(['${file:/x}', '${}', '${1A}', '${HOST:fallback}', '${HOST', '${ HOST }', '${env.HOST}'])(
    '%s is reported as no reference, and stays as it is',
    (text) => {
      expect(expandVariables({ a: ['x', `-${text}`] }, env)).toEqual({
        value: { a: ['x', `-${text}`] },
        missing: [],
        unknown: [{ path: ['a', '1'], text }],
      });
    },
  );

  test.each([
    ['${PORT}', 81],
    ['${YES}', true],
    ['${HOST}', 'h'],
    ['${ZIP}', '007'],
    ['${BIG}', '12345678901234567890'],
    ['${PORT}0', '810'],
    ['${NOPE:-4096}', 4096],
  ])('where types are kept, %s becomes %j', (text, expected) => {
    expect(expandVariables(text, env, () => true).value).toBe(expected);
  });

  test('the value of a variable is never expanded again', () => {
    expect(expandVariables('${A}', { A: '${B}', B: 'secret' }).value).toBe('${B}');
  });

  test('any text without a reference is unchanged', () => {
    fc.assert(
      fc.property(
        fc.string().filter((text) => !text.includes('${')),
        (text) => {
          expect(expandVariables({ text }, env)).toEqual({ value: { text }, missing: [], unknown: [] });
        },
      ),
    );
  });

  test('values other than text are unchanged', () => {
    fc.assert(
      fc.property(
        fc.jsonValue().filter((value) => !JSON.stringify(value).includes('$')),
        (value) => {
          expect(JSON.stringify(expandVariables(value, env).value)).toBe(JSON.stringify(value));
        },
      ),
    );
  });
});
