import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatJson } from '../../../dashboard/src/content/json/format-json.ts';
import {
  beginningOf,
  childCountOf,
  childrenOf,
  decodeString,
  type JsonNode,
  kindOf,
  memberOf,
  nameOf,
  readJson,
  rootOf,
  scanJson,
  sourceOf,
  stringOf,
} from '../../../dashboard/src/content/json/json-document.ts';
import { formatPath, nodeAt, pathOf } from '../../../dashboard/src/content/json/json-path.ts';
import { searchJson } from '../../../dashboard/src/content/json/search-json.ts';
import { runNow, runSliced } from '../../../dashboard/src/content/sliced.ts';
import { countOf } from '../../support/seed.ts';

/** The value as JSON.parse returns it. */
function parsedValue(node: JsonNode): unknown {
  switch (kindOf(node)) {
    case 'string':
      return stringOf(node);
    case 'array':
      return [...childrenOf(node)].map(parsedValue);
    case 'object': {
      const members = [...childrenOf(node)].map((child) => [nameOf(child) ?? '', parsedValue(child)] as const);
      return Object.fromEntries(members);
    }
    default:
      return JSON.parse(sourceOf(node));
  }
}

function rootValue(text: string): JsonNode {
  const root = rootOf(readJson(text));
  if (root === undefined) throw new Error('no value');
  return root;
}

describe('readJson', () => {
  it('reads every JSON value as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 2, '\t'), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent);
        expect(parsedValue(rootValue(text))).toEqual(JSON.parse(text));
        expect(readJson(text).problem).toBeUndefined();
      }),
    );
  });

  it('accepts exactly the texts that JSON.parse accepts, except control characters and unknown escapes in strings', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '1',
      '-',
      '01',
      '1.',
      '.5',
      '1e5',
      'true',
      'nul',
      ' ',
      '""',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 8 }), (parts) => {
        const text = parts.join('');
        let valid = true;
        try {
          JSON.parse(text);
        } catch {
          valid = false;
        }
        expect(readJson(text).problem === undefined).toBe(valid);
      }),
      { numRuns: countOf(500, 2_000) },
    );
  });

  it('keeps the digits of numbers', () => {
    const numbers = ['123456789012345678901234567890', '1.10', '-0', '1E400', '0.1000000000000000055511151231257827'];
    const root = rootValue(`[${numbers.join()}]`);
    expect([...childrenOf(root)].map(sourceOf)).toEqual(numbers);
  });

  it('keeps members with the same name and returns the last one by name', () => {
    const root = rootValue('{"a":1,"b":2,"a":3}');
    expect(childCountOf(root)).toBe(3);
    expect(sourceOf(memberOf(root, 'a') ?? root)).toBe('3');
  });

  it('reads a nesting of 100,000 levels', () => {
    const depth = 100_000;
    const document = readJson(`${'[{"a":'.repeat(depth)}1${'}]'.repeat(depth)}`);
    expect(document.problem).toBeUndefined();
    expect(document.count).toBe(2 * depth + 1);
    const deepest = { document, index: document.count - 1 };
    expect(sourceOf(deepest)).toBe('1');
    expect(pathOf(deepest)).toHaveLength(2 * depth);
  });

  it('keeps the values before the place where a text breaks off', () => {
    const document = readJson('{"messages":[{"role":"user","content":"Hel');
    expect(document.problem).toEqual({ offset: 42, message: 'The text ends before the value is complete.' });
    expect(stringOf(nodeAt(rootOf(document), ['messages', 0, 'content']))).toBe('Hel');
  });

  it('names the place of a mistake', () => {
    expect(readJson('{"a":1 "b":2}').problem).toEqual({ offset: 7, message: 'Expected a comma or }.' });
    expect(readJson('[1] 2').problem?.offset).toBe(4);
    expect(readJson('').problem?.offset).toBe(0);
  });

  it('reads at most the given number of values', () => {
    const document = runNow(scanJson(JSON.stringify(Array.from({ length: 100 }, (_, n) => n)), 10));
    expect(document.count).toBe(10);
    expect(document.problem?.message).toBe('Only the first 10 values are read.');
  });

  it('yields within a long text', async () => {
    let pauses = 0;
    let clock = 0;
    const document = await runSliced(scanJson(JSON.stringify(Array.from({ length: 100_000 }, (_, n) => n))), {
      now: () => clock++,
      sliceMs: 5,
      pause: async () => void pauses++,
    });
    expect(document.count).toBe(100_001);
    expect(pauses).toBeGreaterThan(10);
  });

  it('decodes strings as JSON.parse does', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 20 }), (text) => {
        expect(decodeString(JSON.stringify(text))).toBe(text);
        const escaped = `"${[...text].map((c) => [...c].map((u) => escapeUnits(u)).join('')).join('')}"`;
        expect(decodeString(escaped)).toBe(text);
      }),
    );
  });

  it('decodes long strings in parts as a whole, also where an escape is not valid', () => {
    const pieces = fc.constantFrom('a', '\\\\', '\\n', '\\u00e9', '\\"', '\\ud83d\\ude00', 'é');
    fc.assert(
      fc.property(fc.array(pieces, { minLength: 1, maxLength: 7 }), fc.nat(9), (list, shift) => {
        const inside = 'x'.repeat(shift) + list.join('').repeat(20_000);
        expect(decodeString(`"${inside}"`)).toBe(JSON.parse(`"${inside}"`));
        expect(decodeString(`"${inside}\\q"`)).toBe(`${JSON.parse(`"${inside}"`)}q`);
      }),
      { numRuns: 30 },
    );
    expect(decodeString(`"${'\\\\'.repeat(100_000)}"`)).toBe('\\'.repeat(100_000));
  });

  it('returns the beginning of a string without splitting a character', () => {
    const node = rootValue(JSON.stringify(`ab😀${'x'.repeat(1_000)}`));
    expect(beginningOf(node, 3)).toEqual({ text: 'ab', complete: false });
    expect(beginningOf(node, 2_000).complete).toBe(true);
    expect(beginningOf(rootValue('"\\n\\n\\n\\n"'), 4)).toEqual({ text: '\n\n\n\n', complete: true });
  });
});

function escapeUnits(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

describe('pathOf', () => {
  it('is the inverse of nodeAt', () => {
    const root = rootValue('{"messages":[{"content":"a"},{"odd name":[1,2,{"":null}]}]}');
    for (let index = 0; index < root.document.count; index += 1) {
      const node = { document: root.document, index };
      expect(nodeAt(root, pathOf(node))?.index).toBe(index);
    }
  });

  it('is written as code', () => {
    expect(formatPath(['messages', 0, 'odd name', 2])).toBe('messages[0]["odd name"][2]');
    expect(formatPath([])).toBe('(root)');
  });
});

describe('searchJson', () => {
  it('finds decoded text in names and values, in upper or lower case', () => {
    const document = readJson('{"caf\\u00e9":"x","b":["CAF\\u00c9 (x)", 12345678901234567890]}');
    expect(runNow(searchJson(document, 'café')).matches).toEqual([
      { index: 1, where: 'name' },
      { index: 3, where: 'value' },
    ]);
    expect(runNow(searchJson(document, '(x)')).matches).toHaveLength(1);
    expect(runNow(searchJson(document, '7890')).matches).toEqual([{ index: 4, where: 'value' }]);
  });

  it('returns at most the given number of matches and says that there are more', () => {
    const document = readJson(JSON.stringify(Array.from({ length: 100 }, () => 'a')));
    expect(runNow(searchJson(document, 'a', 0, 10))).toMatchObject({ more: true, matches: { length: 10 } });
  });
});

describe('formatJson', () => {
  it('formats as JSON.stringify does, with the digits and escapes of the text', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(runNow(formatJson(readJson(text)))).toBe(JSON.stringify(JSON.parse(text), undefined, 2));
      }),
    );
    expect(runNow(formatJson(readJson('{"a":[1.0,"\\u0041"],"a":{}}')))).toBe(
      '{\n  "a": [\n    1.0,\n    "\\u0041"\n  ],\n  "a": {}\n}',
    );
  });

  it('grows in proportion to the text, however deep it is', () => {
    const text = `${'['.repeat(50_000)}1${']'.repeat(50_000)}`;
    const formatted = runNow(formatJson(readJson(text))) ?? '';
    expect(formatted.length).toBeGreaterThan(text.length);
    expect(formatted.length).toBeLessThan(text.length * 50);
  });
});
