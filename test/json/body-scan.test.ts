import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BodyBounds, jsonProblem, unbounded } from '../../src/json/body-scan.ts';
import { countOf } from '../support/seed.ts';

const problemOf = (text: string, bounds: Partial<BodyBounds> = {}) =>
  jsonProblem(Buffer.from(text), { ...unbounded, ...bounds });

describe('names that occur twice', () => {
  it.each([
    ['{"a":1,"a":2}', 'a'],
    ['{"a":1,"b":{"c":[{"d":1,"e":2,"d":3}]}}', 'd'],
    ['{"a":1,"\\u0061":2}', 'a'],
    ['{"x":{"file_id":1,"file\\u005fid":2}}', 'file_id'],
    ['{"Model":1,"model":2}', 'model'],
    ['{"max_tokens":1,"max_token\u017f":2}', 'max_token\u017f'],
    ['{"max_tokens":1,"max_token\\u017F":2}', 'max_token\u017f'],
    ['{"max_to\u212aens":1,"max_tokens":2}', 'max_tokens'],
    ['{"a":1 "a":2}', 'a'],
    ['{"a":{"b":"x"\n"b" : 1}}', 'b'],
    ['{ "a" : "\\"" , "b\\\\" : "\\\\" , "a" : 1 }', 'a'],
    [`{${Array.from({ length: 40 }, (_, at) => `"n${at}":${at}`).join(',')},"n3":1}`, 'n3'],
    [`{"${'é'.repeat(100)}":1,"${'é'.repeat(100)}":2}`, 'é'.repeat(100)],
  ])('finds the second one in %s', (text, name) => {
    expect(problemOf(text)).toEqual({ kind: 'repeated', name });
  });

  it.each([
    '{"a":{"a":1},"b":[{"a":1},{"a":1}]}',
    '{"a":"\\",\\"a\\":1"}',
    '["a","a"]',
    '{"x":{"Name":1,"name":2}}',
    '{"a":["b","b"],"b":"a"}',
    '{"a',
    ']]}}',
    '',
    '"\\',
  ])('finds none in %s', (text) => {
    expect(problemOf(text)).toBeUndefined();
  });

  const text = fc.oneof(fc.string(), fc.constantFrom('a', 'b', '\\', '"', 'A', 'é', '\n', '😀', 'x'.repeat(100)));
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: 'small' }, fc.integer(), text, fc.array(tie('value')), tie('object')),
    object: fc.array(fc.tuple(text, tie('value'))).map((members) => new Map(members.map((one, at) => [at, one]))),
  }));
  /** The text of a value whose objects are lists of names and values; each name counts its object's names. */
  function written(one: unknown, top: boolean): { text: string; repeats: boolean } {
    if (Array.isArray(one)) {
      const all = one.map((inner) => written(inner, false));
      return { text: `[${all.map((inner) => inner.text).join(' , ')}]`, repeats: all.some((inner) => inner.repeats) };
    }
    if (!(one instanceof Map)) return { text: JSON.stringify(one), repeats: false };
    const members = [...one.values()] as [string, unknown][];
    const names = members.map(([name]) => (top ? name.toLowerCase() : name));
    const all = members.map(([, inner]) => written(inner, false));
    const joined = members.map(([name], at) => `${JSON.stringify(name)} :${all[at]?.text}`).join(',\n');
    return {
      text: `{${joined}}`,
      repeats: new Set(names).size < names.length || all.some((inner) => inner.repeats),
    };
  }

  it('finds one exactly where an object has a name twice', () => {
    fc.assert(
      fc.property(value, (one) => {
        const { text: json, repeats } = written(one, true);
        JSON.parse(json);
        expect(problemOf(json)?.kind).toBe(repeats ? 'repeated' : undefined);
      }),
      { numRuns: countOf(250, 1000) },
    );
  });
});

describe('known names in another spelling', () => {
  const known = new Set(['max_tokens', 'n', 'options', 'num_predict']);
  const found = (text: string) => jsonProblem(Buffer.from(text), unbounded, true, known);

  it.each([
    ['{"a":1,"MAX_TOKENS":2}', 'MAX_TOKENS'],
    ['{"max_token\u017f":2}', 'max_token\u017f'],
    ['{"max_to\\u212Aens":2}', 'max_to\u212aens'],
    ['{"N":20}', 'N'],
    ['{"Options":{}}', 'Options'],
    ['{"a":1,"options":{"Num_Predict":8000}}', 'Num_Predict'],
  ])('are found in %s', (text, name) => expect(found(text)).toEqual({ kind: 'ambiguous', name }));

  it.each([
    '{"max_tokens":1,"n":2,"options":{"num_predict":3},"maxTokens":4,"MAX":5}',
    '{"metadata":{"N":1},"options":{"a":{"N":1}},"tools":[{"Max_Tokens":1}]}',
    '[{"N":1}]',
  ])('are not found in %s', (text) => expect(found(text)).toBeUndefined());
});

describe('bounds', () => {
  it.each([
    ['depth', 3, '[[[1]]]', '[[[[1]]]]'],
    ['depth', 2, '{"a":{"b":1},"c":{"d":1}}', '{"a":{"b":{}}}'],
    ['entries', 3, '[{},{},{}]', '[{},{},{},{}]'],
    ['entries', 3, '{"a":1,"b":2,"c":3}', '{"a":1,"b":2,"c":3,"d":4}'],
    ['entries', 3, '{"a":[1,2,3,4,5,6]}', '{"a":[[],[],[],[]]}'],
    ['objects', 3, '[{},[]]', '[{},[[]]]'],
    ['values', 4, '[1,2,3,4]', '[1,2,3,4,5]'],
    ['values', 4, '{"a":"1,2,3,4,5,{[[","b":2}', '{"a":1,"b":2,"c":3,"d":4,"e":5}'],
  ] as const)('%s: %d', (kind, bound, within, beyond) => {
    expect(problemOf(within, { [kind]: bound })).toBeUndefined();
    expect(problemOf(beyond, { [kind]: bound })).toEqual({ kind });
  });
});
