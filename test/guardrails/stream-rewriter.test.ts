import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Placeholders } from '../../src/commands/guardrails/placeholders.ts';
import { recognisers } from '../../src/commands/guardrails/recognisers/known-recognisers.ts';
import { recogniserFinder } from '../../src/commands/guardrails/recognisers/recogniser-finder.ts';
import {
  type Finder,
  type Found,
  literalFinder,
  patternFinder,
  placeholderFinder,
  rewriteWhole,
} from '../../src/commands/guardrails/text/finder.ts';
import { StreamRewriter } from '../../src/commands/guardrails/text/stream-rewriter.ts';
import { chunked, singleUnits, throughPieces } from './any-chunking.ts';
import { cardNumbers, ibans, nationalIdsOfDocuments } from './valid-numbers.ts';

function marked(match: Found, text: string): string {
  return `[${text.slice(match.start, match.end)}]`;
}

function sameForAnyChunking<Match extends Found>(
  finder: Finder<Match>,
  texts: fc.Arbitrary<string>,
  replace: (match: Match, text: string) => string = marked,
  numRuns = 300,
): void {
  fc.assert(
    fc.property(chunked(texts), ({ whole, pieces }) => {
      const expected = rewriteWhole(finder, whole, replace);
      expect(throughPieces(new StreamRewriter(finder, replace), pieces)).toBe(expected);
      expect(throughPieces(new StreamRewriter(finder, replace), singleUnits(whole))).toBe(expected);
    }),
    { numRuns },
  );
}

/** Few different signs, so that matches are frequent. */
const fewSigns = (signs: string) => fc.string({ unit: fc.constantFrom(...signs), maxLength: 60 });

describe('StreamRewriter: any chunking gives the rewritten whole text', () => {
  it.each(['a', 'ab', 'aab', 'abab', 'aaaa'])('with the literal %s', (literal) => {
    const texts = fewSigns('abc');
    sameForAnyChunking(literalFinder(literal, false), texts);
    fc.assert(
      fc.property(texts, (text) => {
        expect(rewriteWhole(literalFinder(literal, false), text, () => 'X')).toBe(text.replaceAll(literal, 'X'));
      }),
    );
  });

  it.each(['ab', 'straße', 'k', 'σας', '𐐀b', 'İi'])('with the literal %s without regard to case', (literal) => {
    const signs = [...new Set([...literal, ...literal.toUpperCase(), ...literal.toLowerCase(), 'K', 'ſ', 'ẞ', 'x'])];
    sameForAnyChunking(literalFinder(literal, true), fc.string({ unit: fc.constantFrom(...signs), maxLength: 40 }));
  });

  it.each([
    'a{1,3}b?',
    '\\bab\\b',
    '^a|b$',
    '(?m)^a|b$',
    '(a|ab)(c|bcd)?',
    '(?i)A.C',
    '.{2}c',
    '[^a]a',
    'a\\Bb',
    'a??b',
    '\\ba|b',
  ])('with the pattern %s', (pattern) => {
    const texts = fc.string({ unit: fc.constantFrom('a', 'b', 'c', 'd', ' ', '\n', '😀', 'A'), maxLength: 40 });
    const finder = patternFinder(pattern, false);
    expect(finder.longest).toBeLessThan(10);
    sameForAnyChunking(finder, texts);
  });

  it('with placeholders', () => {
    const placeholders = new Placeholders();
    const values = ['jane@example.com', '4111 1111 1111 1111', 'DE89'].map((value) =>
      placeholders.placeholderOf('EMAIL', value),
    );
    const words = fc.constantFrom(...values, '<', '<EMAIL_', '<EMAIL_9>', '>', 'a', ' <b> ', '<EMAIL', '_1>');
    const texts = fc.array(words, { maxLength: 12 }).map((list) => list.join(''));
    sameForAnyChunking(placeholderFinder(placeholders), texts, ({ value }) => value);
  });

  it('with all recognisers', () => {
    const words = fc.oneof(
      cardNumbers,
      ibans,
      nationalIdsOfDocuments,
      fc.constantFrom(
        ...['jane.doe@example.com', '+49 170 1234567', '(415) 555-2671', '415-555-2671', 'sk-abcdefghij0123456789xyz'],
        ...[
          'AKIAIOSFODNN7EXAMPLE',
          'word',
          'to',
          'be',
          'a.b',
          '.',
          ',',
          '\n',
          '12',
          '@',
          '@example.com',
          '4111',
          'x@y',
        ],
      ),
    );
    const separators = fc.constantFrom(' ', '', ' ', '  ', '-', ', ', '\n', '. ');
    const texts = fc
      .array(fc.tuple(words, separators), { maxLength: 10 })
      .map((list) => list.map((pair) => pair.join('')).join(''));
    sameForAnyChunking(
      recogniserFinder(recognisers),
      texts,
      ({ start, end, entity }, text) => `[${entity} ${text.slice(start, end)}]`,
      2_000,
    );
  });

  it('with recognisers in texts without spaces', () => {
    const texts = fc.string({ unit: fc.constantFrom(...'a1@.-4_'), minLength: 0, maxLength: 1_500 });
    sameForAnyChunking(recogniserFinder(recognisers), texts, marked, 100);
  });
});

describe('StreamRewriter', () => {
  it('retains at most the longest match and two units', () => {
    const finder = patternFinder('a{1,8}', false);
    const rewriter = new StreamRewriter(finder, marked);
    for (let pushed = 0; pushed < 200; pushed += 1) {
      rewriter.push('ba');
      expect(rewriter.retained).toBeLessThanOrEqual(8 + 2);
    }
  });

  it('retains nothing of a text in which no literal begins', () => {
    const rewriter = new StreamRewriter(literalFinder('secret', false), marked);
    expect(rewriter.push('the answer is se')).toBe('the answer is ');
    expect(rewriter.push('ven')).toBe('seven');
  });

  it('retains only the last word and its numbers for the recognisers', () => {
    const rewriter = new StreamRewriter(recogniserFinder(recognisers), marked);
    expect(rewriter.push('Please call the office at +49 170 ')).toBe('Please call the office at ');
    expect(rewriter.push('1234567 today or ')).toBe('[+49 170 1234567] today or ');
  });

  it('ends the text before the first match when it stops there', () => {
    const rewriter = new StreamRewriter(literalFinder('secret', false), marked, { stopAtMatch: true });
    expect(rewriter.push('a sec') + rewriter.push('ret b') + rewriter.push('c') + rewriter.end()).toBe('a ');
    expect(rewriter.stopped).toBe(true);
  });
});
