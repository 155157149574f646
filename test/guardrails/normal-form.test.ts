/** Values that are written with other characters than those of ASCII: recognised, hidden whole, and restored as they were. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { recognisers } from '../../src/commands/guardrails/recognisers/known-recognisers.ts';
import { recogniserFinder } from '../../src/commands/guardrails/recognisers/recogniser-finder.ts';
import { rewriteWhole } from '../../src/commands/guardrails/text/finder.ts';
import { normalForm } from '../../src/commands/guardrails/text/normal-form.ts';
import { StreamRewriter } from '../../src/commands/guardrails/text/stream-rewriter.ts';
import { countOf, seed } from '../support/seed.ts';
import { chunked, singleUnits, throughPieces } from './any-chunking.ts';
import { ibans, nationalIdsOfDocuments, plainCardNumbers } from './valid-numbers.ts';

const finder = recogniserFinder(recognisers.filter(({ byDefault }) => byDefault));
const replace = ({ start, end, entity }: { start: number; end: number; entity: string }, text: string) =>
  `<${entity}|${text.slice(start, end)}>`;
const hidden = (text: string) => rewriteWhole(finder, text, replace);

const card = '4111111111111111';
const shifted = (zero: number) => (text: string) =>
  text.replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)));
const between = (what: string) => (text: string) => [...text].join(what);
const grouped = (what: string) => (text: string) => text.match(/.{4}/g)?.join(what) ?? '';

describe('a card number', () => {
  it.each<[string, string]>([
    ['full-width digits', shifted(0xff10)(card)],
    ['Arabic-Indic digits', shifted(0x660)(card)],
    ['extended Arabic-Indic digits', shifted(0x6f0)(card)],
    ['Devanagari digits', shifted(0x966)(card)],
    ['Thai digits', shifted(0xe50)(card)],
    ['mathematical digits', shifted(0x1d7d8)(card)],
    ['mathematical monospace digits', shifted(0x1d7f6)(card)],
    ['circled digits', card.replaceAll('4', '④').replaceAll('1', '①')],
    ['keycaps', between('\ufe0f\u20e3')(card)],
    ['soft hyphens', between('\u00ad')(card)],
    ['zero-width spaces', between('\u200b')(card)],
    ['zero-width joiners', between('\u200d\u200c')(card)],
    ['word joiners', between('\u2060')(card)],
    ['byte order marks', between('\ufeff')(card)],
    ['direction marks', between('\u202e\u2066')(card)],
    ['tag characters', between('\u{e0041}')(card)],
    ['variation selectors', between('\u{e0100}')(card)],
    ['Hangul fillers', between('\u3164')(card)],
    ['combining marks', between('\u0336')(card)],
    ['control characters', between('\u0000')(card)],
    ['interlinear marks', between('\ufff9')(card)],
    ['dots', grouped('.')(card)],
    ['full-width dots', grouped('．')(card)],
    ['ideographic full stops', grouped('。')(card)],
    ['line breaks', grouped('\n')(card)],
    ['line breaks of Windows', grouped('\r\n')(card)],
    ['one line break', '4111 1111\n1111 1111'],
    ['a line break in the middle', '41111111\n11111111'],
    ['hyphens before line breaks', grouped('-\n')(card)],
    ['line separators', grouped('\u2028')(card)],
    ['no-break spaces', grouped('\u00a0')(card)],
    ['narrow spaces', grouped('\u202f')(card)],
    ['blanks of Braille', grouped('\u2800')(card)],
    ['blanks of Braille between all', between('\u2800')(card)],
    ['next lines between all', between('\u0085')(card)],
    ['digits with full stops', card.replaceAll('4', '⒋').replaceAll('1', '⒈')],
    ['digits in parentheses', card.replaceAll('4', '⑷').replaceAll('1', '⑴')],
    ['tabs', grouped('\t')(card)],
    ['two spaces', grouped('  ')(card)],
    ['no-break hyphens', grouped('\u2011')(card)],
    ['dashes', grouped('–')(card)],
    ['minus signs', grouped('\u2212')(card)],
    ['dots between the groups of American Express', '3782.822463.10005'],
  ])('with %s is found, whole', (_name, written) => {
    expect(hidden(`卡号 ${written}, ok?`)).toBe(`卡号 <CARD_NUMBER|${written}>, ok?`);
    expect(throughPieces(new StreamRewriter(finder, replace), singleUnits(`é ${written} x`))).toBe(
      `é <CARD_NUMBER|${written}> x`,
    );
  });

  it.each([
    '4.123456789012345',
    '4111111.111111111',
    '[4.111111111111111, 5.5555555555554444]',
    '1.4111.1111.1111.1111',
  ])('is not found in other numbers: %s', (text) => expect(hidden(text)).toBe(text));
});

describe('an e-mail address', () => {
  it.each([
    'jane＠example.com',
    'jane﹫example.com',
    'jane@example。com',
    'jane@example｡com',
    'ｊａｎｅ＠ｅｘａｍｐｌｅ．ｃｏｍ',
    'jane\u00ad@exam\u00adple.com',
    'ja\u200bne@example.c\u2060om',
    'jose\u0301@example.com',
    'oﬃce@example.com',
    '𝗃𝖺𝗇𝖾@𝖾𝗑𝖺𝗆𝗉𝗅𝖾.𝖼𝗈𝗆',
    'किरण@उदाहरण.भारत',
    '한국@예시.한국',
  ])('written %j is found, whole', (written) => {
    expect(hidden(`to ${written}\n`)).toBe(`to <EMAIL|${written}>\n`);
  });
});

describe('other values', () => {
  it.each([
    ['IBAN', 'ＤＥ８９ ３７０４ ００４４ ０５３２ ０１３０ ００'],
    ['US_SSN', '219‑09‑9999'],
    ['PHONE', '＋４９ ３０ １２３４５６７８'],
    ['API_KEY', 'sk\u2011abc1\u00addefghij2klmnopqr3stuvwx'],
  ])('%s written %s is found', (entity, written) => {
    expect(hidden(`— ${written} —`)).toBe(`— <${entity}|${written}> —`);
  });

  it('an allowed value is allowed however it is written', () => {
    const lenient = recogniserFinder(recognisers, new Set(['help@example.com']));
    const text = 'help@example.com ｈｅｌｐ＠example。com he\u00adlp@example.com';
    expect(rewriteWhole(lenient, text, replace)).toBe(text);
  });
});

describe('the normal form', () => {
  it('of an expanding character leads back to the whole character', () => {
    const form = normalForm('a½ﬃ\u00ad①b');
    expect(form.text).toBe('a1⁄2ffi1b');
    expect([1, 2, 3].map((at) => [form.startOf(at), form.endOf(at)])).toEqual([
      [1, 2],
      [1, 2],
      [1, 2],
    ]);
    expect([form.startOf(7), form.endOf(7), form.indexOf(4)]).toEqual([4, 5, 7]);
    expect(form.startOf(form.text.length)).toBe(6);
  });

  it('reads every decimal digit of Unicode as its value, and its own form as it is', () => {
    const wrong: string[] = [];
    const isDigit = /\p{Nd}/u;
    for (let code = 0x80; code <= 0x1fbff; code += 1) {
      const character = String.fromCodePoint(code);
      const form = normalForm(character).text;
      if (normalForm(form).text !== form) wrong.push(`U+${code.toString(16)} is read as ${form}`);
      if (isDigit.test(character) && !/^[0-9]$/.test(form)) wrong.push(`U+${code.toString(16)} is no digit`);
    }
    expect(wrong).toEqual([]);
    expect(normalForm('٠١٢٣٤٥٦٧٨٩ ০১২৩৪৫৬৭৮৯ 𝟘𝟡𝟢𝟫 𑁦𑁯').text).toBe('0123456789 0123456789 0909 09');
  });
});

const noise = fc.constantFrom('', '', '', '\u00ad', '\u200b', '\u2060\u200d', '\ufe0f', '\u0301', '\u{e0041}');
const disguised = fc
  .tuple(fc.oneof(plainCardNumbers, ibans, nationalIdsOfDocuments, fc.constant('jane@example.com')), fc.nat(3), noise)
  .map(([value, kind, mark]) => {
    const written =
      kind === 1 ? shifted(0xff10)(value) : kind === 2 ? value.replace('@', '＠').replace('.', '。') : value;
    return [...written].join(mark);
  });
const filler = fc.constantFrom(
  ' ',
  '\n',
  '\r\n',
  'a',
  '½',
  'ﬃ',
  '\u00ad',
  '\u200b\u200b\u200b\u200b\u200b',
  '7',
  '.',
  '-',
  '😀',
  '中',
  '\ud83d',
  '@',
  '１',
);
const texts = fc.array(fc.oneof(disguised, filler, fc.constant(' ')), { maxLength: 12 }).map((parts) => parts.join(''));

describe(`a stream (seed ${seed})`, () => {
  it('in any pieces gives what the whole text gives', () => {
    fc.assert(
      fc.property(chunked(texts), ({ whole, pieces }) => {
        const expected = hidden(whole);
        expect(throughPieces(new StreamRewriter(finder, replace), pieces)).toBe(expected);
        expect(throughPieces(new StreamRewriter(finder, replace), singleUnits(whole))).toBe(expected);
        expect(expected.replaceAll(/<[A-Z_]+\|([^>]*)>/g, '$1')).toBe(whole);
      }),
      { seed, numRuns: countOf(500, 20_000, 'NORMAL_FORM_RUNS') },
    );
  });

  it('with characters that are not shown without end fails instead of growing', () => {
    const rewriter = new StreamRewriter(finder, replace);
    rewriter.push('4');
    expect(() => {
      for (let pushed = 0; pushed < 100; pushed += 1) rewriter.push('\u200b'.repeat(1_000));
    }).toThrow('may be longer');
  });
});

describe('separators between groups', () => {
  it.each([
    'DE89 3704 0044 0532 0130 00',
    'DE89\t3704\t0044\t0532\t0130\t00',
    'DE89  3704  0044  0532  0130  00',
    'DE89-3704-0044-0532-0130-00',
    'DE89 3704 0044\n0532 0130 00',
    '+49 151\n23456789',
    '+49\t151\t23456789',
    '+49  151  23456789',
    '(212)  555-0123',
    '212\t555\t0123',
  ])('may be tabs, two spaces, dashes, line breaks: %j', (value) => {
    const text = `My value is ${value}, and more.`;
    expect(hidden(text)).toMatch(/^My value is <[A-Z]+\|[^>]+>, and more\.$/);
    expect(hidden(text)).toContain(`|${value}>`);
    const stream = new StreamRewriter(finder, replace);
    expect([...text].map((unit) => stream.push(unit)).join('') + stream.end()).toBe(hidden(text));
  });

  it('keep the numbers of a list out of the telephone number before them', () => {
    expect(hidden('+49 151 23456789\n2. Next')).toBe('<PHONE|+49 151 23456789>\n2. Next');
  });
});
