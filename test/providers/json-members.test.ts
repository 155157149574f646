import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rewriteMembers } from '../../src/providers/translate/json.ts';
import { countOf } from '../support/seed.ts';

function rewrite(text: string, changes: Record<string, string | undefined>): string {
  return rewriteMembers(Buffer.from(text), changes).toString();
}

describe('rewriting members', () => {
  test('replaces a value and leaves every other byte alone', () => {
    const text = '{\n  "model" : "a/b" ,\n  "seed": 12345678901234567890, "x":1.0, "y": "\\u00e4"\n}';
    expect(rewrite(text, { model: '"b"' })).toBe(text.replace('"a/b"', '"b"'));
  });

  test('deletes a member wherever it stands', () => {
    expect(rewrite('{"a":1,"b":2,"c":3}', { a: undefined })).toBe('{"b":2,"c":3}');
    expect(rewrite('{"a":1,"b":2,"c":3}', { b: undefined })).toBe('{"a":1,"c":3}');
    expect(rewrite('{"a":1,"b":2,"c":3}', { c: undefined })).toBe('{"a":1,"b":2}');
    expect(rewrite('{"a":1,"b":2,"c":3}', { a: undefined, b: undefined })).toBe('{"c":3}');
    expect(rewrite('{"a":1,"b":2,"c":3}', { b: undefined, c: undefined })).toBe('{"a":1}');
    expect(rewrite(' { "a" : 1 } ', { a: undefined })).toBe(' {} ');
  });

  test('adds missing members at the end', () => {
    expect(rewrite('{}', { a: '1' })).toBe('{"a":1}');
    expect(rewrite('{"a":1}', { b: '{"c":2}', d: 'null' })).toBe('{"a":1,"b":{"c":2},"d":null}');
    expect(rewrite('{"a":1}', { a: undefined, b: '2' })).toBe('{"b":2}');
  });

  test('gives back the same bytes when nothing changes', () => {
    const bytes = Buffer.from('{"a":1}');
    expect(rewriteMembers(bytes, {})).toBe(bytes);
    expect(rewriteMembers(bytes, { b: undefined })).toBe(bytes);
  });

  test('sees through escapes in names', () => {
    expect(rewrite('{"mod\\u0065l":"a"}', { model: '"b"' })).toBe('{"mod\\u0065l":"b"}');
    expect(rewrite('{"a\\"b":1,"c":2}', { 'a"b': '3' })).toBe('{"a\\"b":3,"c":2}');
  });

  test('changes every occurrence of a repeated name', () => {
    expect(rewrite('{"a":1,"b":0,"a":2}', { a: '3' })).toBe('{"a":3,"b":0,"a":3}');
    expect(rewrite('{"a":1,"b":0,"a":2}', { a: undefined })).toBe('{"b":0}');
  });

  test('leaves members of nested objects and look-alikes in strings alone', () => {
    const text = '{"messages":[{"model":"x","content":"\\"model\\":\\\\"}],"o":{"model":1},"model":"a"}';
    expect(rewrite(text, { model: '"b"' })).toBe(`${text.slice(0, -4)}"b"}`);
  });

  test('refuses text that is no object', () => {
    expect(() => rewrite('[1]', { a: '1' })).toThrow('not a JSON object');
  });

  test('takes time in proportion to the text, for any text', () => {
    const hostile = JSON.stringify({
      a: '\\'.repeat(400_000),
      b: '"'.repeat(400_000),
      c: ['{'.repeat(1000)],
      model: 'x',
    });
    const started = performance.now();
    expect(JSON.parse(rewrite(hostile, { model: '"y"' })).model).toBe('y');
    expect(performance.now() - started).toBeLessThan(1000);
  });
});

describe('for any object', () => {
  const name = fc.oneof(fc.constantFrom('model', 'provider', 'stream', 'a', 'ä"\\', ''), fc.string({ maxLength: 4 }));
  const change = fc.option(fc.jsonValue({ maxDepth: 2 }), { nil: undefined });
  const changes = fc.array(fc.tuple(name, change), { maxLength: 4 }).map((pairs) => new Map(pairs));
  const object = fc.dictionary(name, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 8, noNullPrototype: true });
  const layout = fc.constantFrom(undefined, 1, '\t', ' \n');

  test('the result parses to the object with the same changes', () => {
    fc.assert(
      fc.property(object, changes, layout, (before, wanted, space) => {
        fc.pre(!wanted.has('__proto__') && !Object.hasOwn(before, '__proto__'));
        const expected: Record<string, unknown> = { ...before };
        const texts: Record<string, string | undefined> = {};
        for (const [member, value] of wanted) {
          texts[member] = value === undefined ? undefined : JSON.stringify(value);
          if (value === undefined) delete expected[member];
          else expected[member] = JSON.parse(JSON.stringify(value));
        }
        const result = rewrite(JSON.stringify(before, null, space), texts);
        expect(JSON.parse(result)).toEqual(JSON.parse(JSON.stringify(expected)));
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  test('the members that are not named keep their bytes', () => {
    fc.assert(
      fc.property(object, fc.bigInt({ min: 2n ** 60n, max: 2n ** 90n }), (others, large) => {
        const members = Object.entries(others)
          .filter(([member]) => member !== 'model')
          .map(([member, value]) => ` ${JSON.stringify(member)} :\t${JSON.stringify(value)}`);
        const text = `{${[`"seed":  ${large} `, ...members].join(',')},"model": 1}`;
        expect(rewrite(text, { model: '"b"' })).toBe(`${text.slice(0, -2)}"b"}`);
      }),
    );
  });
});
