import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExactly } from '../../src/json/exact-json.ts';
import { countOf } from '../support/seed.ts';

describe('parsing exactly', () => {
  it.each(['9007199254740993', '-9223372036854775808', '18446744073709551616'])('keeps the integer %s', (digits) => {
    expect(JSON.stringify(parseExactly(`{"seed":${digits},"deep":[{"max":${digits}}]}`))).toBe(
      `{"seed":${digits},"deep":[{"max":${digits}}]}`,
    );
  });

  it('gives the result of JSON.parse for every value without rounding', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        const text = JSON.stringify(value);
        const parsed = JSON.parse(text);
        if (!/\d{16}/.test(text)) expect(parseExactly(text)).toEqual(parsed);
        expect(JSON.stringify(parseExactly(text))).toBe(
          JSON.stringify(parsed).length === text.length ? text : JSON.stringify(parsed),
        );
      }),
    );
  });

  it('keeps every long integer, wherever it is in the text', () => {
    const padding = fc.integer({ min: 0, max: 40 }).map((length) => ' '.repeat(length));
    const odd = fc.bigInt({ min: 2n ** 52n, max: 10n ** 16n / 2n - 1n }).map((n) => 2n * n + 1n);
    const digits = fc
      .oneof(odd, fc.bigInt({ min: 10n ** 16n, max: 2n ** 70n }))
      .chain((n) => fc.constantFrom(`${n}`, `-${n}`));
    const member = fc.tuple(padding, fc.string({ maxLength: 20 }), padding, digits, padding);
    fc.assert(
      fc.property(padding, fc.array(member, { minLength: 1, maxLength: 4 }), digits, (start, members, alone) => {
        expect(JSON.stringify(parseExactly(`${start}${alone}`))).toBe(alone);
        const unique = members.map(([before, name, between, value, after], index) => {
          const key = JSON.stringify(`${name}${index}x`);
          return [`${before}${key}${between}:${between}${value}${after}`, `${key}:${value}`];
        });
        const spaced = `${start}[{${unique.map(([text]) => text).join()}},${alone}]`;
        expect(JSON.stringify(parseExactly(spaced))).toBe(`[{${unique.map(([, text]) => text).join()}},${alone}]`);
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('leaves digits inside of strings, and fractions, alone', () => {
    expect(parseExactly('{"id":"12345678901234567890","pi":3.14159265358979323846}')).toEqual({
      id: '12345678901234567890',
      pi: Math.PI,
    });
  });

  it('refuses text that is not JSON', () => {
    expect(() => parseExactly('{"a":12345678901234567890')).toThrow(SyntaxError);
  });
});
