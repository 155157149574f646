import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { printable } from '../../src/projections/printable.ts';

describe('printable', () => {
  it.each([
    ['a terminal escape', '\u001b]0;title\u0007', '\\u001b]0;title\\u0007'],
    ['a C1 control', '\u009b2J', '\\u009b2J'],
    ['a delete', '\u007f', '\\u007f'],
    ['a backspace', 'a\bb', 'a\\u0008b'],
    ['a lone carriage return', 'real\rfake', 'real\\u000dfake'],
    ['an override of the direction', 'abc\u202egpj.exe', 'abc\\u202egpj.exe'],
    ['an isolate', '\u2066x\u2069', '\\u2066x\\u2069'],
    ['marks of direction', '\u200e\u200f\u061c', '\\u200e\\u200f\\u061c'],
    ['a line separator', 'a\u2028b', 'a\\u2028b'],
  ])('shows %s as its code', (_what, text, shown) => expect(printable(text)).toBe(shown));

  it('leaves text unchanged, in every script, with its lines and tabs', () => {
    const text = 'naïve שלום مرحبا 漢字 👩‍👩‍👧 a\tb\nc\r\nd \\u001b';
    expect(printable(text)).toBe(text);
  });

  it('leaves no control character for a terminal, and keeps the values of JSON', () => {
    fc.assert(
      fc.property(fc.anything({ values: [fc.string({ unit: 'binary' })] }), (value) => {
        const json = JSON.stringify(value) ?? '';
        const shown = printable(json);
        expect(shown).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u);
        if (json !== '') expect(JSON.parse(shown)).toEqual(JSON.parse(json));
        expect(printable(shown)).toBe(shown);
      }),
    );
  });
});
