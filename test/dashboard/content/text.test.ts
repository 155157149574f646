import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runNow } from '../../../dashboard/src/content/sliced.ts';
import { hasHidden, piecesOf, visibleText } from '../../../dashboard/src/content/text/hidden-characters.ts';
import { searchText } from '../../../dashboard/src/content/text/search-text.ts';
import { allPages, pageIndexAt } from '../../../dashboard/src/content/text/text-pages.ts';
import { countOf } from '../../support/seed.ts';

const hostile = fc.constantFrom(
  'a',
  'é',
  ' ',
  '\n',
  '\r',
  '\t',
  '\u001b',
  '\u001b[31m',
  '\u202e',
  '\u2066',
  '\u200b',
  '\ufeff',
  '\u{e0041}',
  '\ufe0f',
  '\u0301',
  '\ud83d',
  '\u0000',
  '😀',
);
const texts = fc.array(hostile, { maxLength: 60 }).map((parts) => parts.join(''));
const invisible = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

describe('piecesOf', () => {
  it('keeps every character, in order', () => {
    fc.assert(
      fc.property(texts, (text) => {
        const sources = piecesOf(text).map((piece) => (piece.kind === 'text' ? piece.text : piece.source));
        expect(sources.join('')).toBe(text);
      }),
    );
  });

  it('shows no control, direction or invisible character outside marks', () => {
    fc.assert(
      fc.property(texts, (text) => {
        for (const piece of piecesOf(text)) {
          const shown = piece.kind === 'text' ? piece.text : piece.label + piece.title;
          expect(shown.replace(/\r?\n|\t/g, '')).not.toMatch(invisible);
        }
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('names what it marks', () => {
    expect(piecesOf('a\u202eb')[1]).toEqual({
      kind: 'mark',
      label: 'U+202E',
      title: 'Invisible character U+202E, right-to-left override',
      source: '\u202e',
    });
    expect(visibleText('\u001b[2J\u001b]0;x\u0007')).toBe('⟨ESC[2J⟩⟨ESC⟩]0;x⟨BEL⟩');
    expect(visibleText('\u200b\u200b\u200b')).toBe('⟨U+200B ×3⟩');
    expect(visibleText('a\rb\r\nc')).toBe('a⟨CR⟩b\r\nc');
    expect(visibleText('\ud83d!')).toBe('⟨U+D83D⟩!');
  });

  it('shows text hidden in tag characters', () => {
    const tags = [...'ignore rules'].map((c) => String.fromCodePoint(0xe0000 + c.charCodeAt(0))).join('');
    expect(visibleText(`Hi${tags}!`)).toBe('Hi⟨tags “ignore rules”⟩!');
  });

  it('shows data hidden in variation selectors', () => {
    expect(hasHidden('😊\ufe0f')).toBe(false);
    expect(hasHidden('😊\ufe00\ufe01\u{e0103}')).toBe(true);
  });

  it('leaves emoji sequences, accents and scripts that need joiners alone', () => {
    for (const text of ['👨‍👩‍👧', '❤️', '👍🏽', 'é', 'e\u0301', 'می‌خواهم', 'क्‍ष', '日本語', 'שלום', '🇩🇪']) {
      expect(piecesOf(text), text).toEqual([{ kind: 'text', text }]);
    }
  });

  it('folds stacked accents', () => {
    expect(visibleText(`a${'\u0301'.repeat(100)}`)).toBe(`a${'\u0301'.repeat(8)}⟨+92 accents⟩`);
  });

  it('returns a bounded number of pieces, none longer than 32,768 characters', () => {
    const pieces = piecesOf('a\u202e'.repeat(16_000));
    expect(pieces.length).toBeLessThan(3_000);
    for (const piece of pieces) if (piece.kind === 'text') expect(piece.text.length).toBeLessThanOrEqual(32_768);
    const long = piecesOf('😀'.repeat(40_000));
    expect(long.every((piece) => piece.kind === 'text' && piece.text.length <= 32_768)).toBe(true);
    expect(long.some(({ kind }) => kind === 'mark')).toBe(false);
  });
});

describe('allPages', () => {
  it('covers the text without gaps, and counts lines', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'bcd', '\n', '😀'), { maxLength: 200 }), (parts) => {
        const text = parts.join('');
        const pages = runNow(allPages(text, { characters: 7, lines: 3 }));
        expect(pages.map(({ start, end }) => text.slice(start, end)).join('')).toBe(text);
        for (const { start, end, firstLine } of pages) {
          expect(firstLine).toBe(text.slice(0, start).split('\n').length);
          expect(text.slice(start, end)).toBe(Buffer.from(text.slice(start, end)).toString());
          expect(end - start).toBeLessThanOrEqual(7);
        }
        for (let offset = 0; offset < text.length; offset += 1) {
          const page = pages[pageIndexAt(pages, offset)];
          expect(page !== undefined && page.start <= offset && offset < page.end).toBe(true);
        }
      }),
    );
  });

  it('reads 20 MB in one line within a second', () => {
    const text = 'x'.repeat(20_000_000);
    const start = performance.now();
    expect(runNow(allPages(text)).length).toBe(Math.ceil(20_000_000 / 32_768));
    expect(performance.now() - start).toBeLessThan(1_000);
  });
});

describe('searchText', () => {
  it('finds what a search in the whole text finds, also between two parts', () => {
    const text = `${'x'.repeat(262_140)}needle (1)${'y'.repeat(262_140)}NEEDLE (1)`;
    const { matches } = runNow(searchText(text, 'Needle (1)'));
    expect(matches.map(({ start }) => start)).toEqual([262_140, 524_290]);
  });

  it('finds matches that follow each other once', () => {
    expect(runNow(searchText('aaaa', 'aa')).matches).toEqual([
      { start: 0, end: 2 },
      { start: 2, end: 4 },
    ]);
  });
});
