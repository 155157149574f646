/**
 * The form of a text in which recognisers read it: compatibility characters decomposed (NFKD), without marks, controls
 * and characters that are not shown (Default_Ignorable_Code_Point of Unicode, UAX #44), with the digits, hyphens, spaces,
 * full stops and line breaks of ASCII. Each character is read alone, so any division of a text has the same form.
 */

export interface NormalForm {
  readonly text: string;
  /** The index in this form of the first character that begins at or after an index of the original. */
  indexOf(original: number): number;
  /** Where the original character of a unit of this form begins; the length of the original behind the last unit. */
  startOf(index: number): number;
  /** Where the original character of a unit of this form ends. */
  endOf(index: number): number;
}

const plain = /^[\t\n\x20-\x7e]*$/;

export function normalForm(original: string): NormalForm {
  if (plain.test(original)) {
    return { text: original, indexOf: (at) => at, startOf: (at) => at, endOf: (at) => at + 1 };
  }
  const starts: number[] = [];
  let text = '';
  for (let at = 0; at < original.length; ) {
    const code = original.codePointAt(at) ?? 0;
    const read = readAs(code);
    text += read;
    for (let unit = 0; unit < read.length; unit += 1) starts.push(at);
    at += widthOf(code);
  }
  return {
    text,
    indexOf(at) {
      let low = 0;
      let high = starts.length;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((starts[middle] ?? 0) < at) low = middle + 1;
        else high = middle;
      }
      return low;
    },
    startOf: (index) => starts[index] ?? original.length,
    endOf(index) {
      const start = starts[index] ?? original.length;
      return start + widthOf(original.codePointAt(start) ?? 0);
    },
  };
}

const widthOf = (code: number) => (code > 0xffff ? 2 : 1);

/** Characters that are read often; at most `mostKnown`. */
const known = new Map<number, string>();
const mostKnown = 20_000;

function readAs(code: number): string {
  if (code >= 0x20 && code < 0x7f) return String.fromCharCode(code);
  let read = known.get(code);
  if (read === undefined) {
    read = normalCharacter(code);
    if (known.size < mostKnown) known.set(code, read);
  }
  return read;
}

/** Decomposed, each would be three letters. */
const isHangul = (code: number) => code >= 0xac00 && code <= 0xd7a3;

/** Of a number in parentheses or with a full stop, the number: U+2474 to U+249B. */
const withoutFrame = (code: number, text: string) =>
  code >= 0x2474 && code <= 0x249b ? text.replace(/[().]/g, '') : text;

const lineBreak = /[\n\v\f\u2028\u2029]/u;
/** The blank pattern of Braille separates no words in texts that people write. */
const unseen = /[\u2800\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]|(?![\t\n])\p{Cc}/gu;
const variants = /\p{Nd}|\p{Pd}|\p{Zs}|[\u2212\u3002]/gu;

function normalCharacter(code: number): string {
  const character = String.fromCodePoint(code);
  if (lineBreak.test(character)) return '\n';
  const decomposed = isHangul(code) ? character : withoutFrame(code, character.normalize('NFKD'));
  return decomposed.replace(unseen, '').replace(variants, (variant) => {
    if (variant === '\u3002') return '.';
    if (/\p{Nd}/u.test(variant)) return String(digitOf(variant.codePointAt(0) ?? 0));
    return /\p{Zs}/u.test(variant) ? ' ' : '-';
  });
}

/** The decimal digits of a script follow each other from zero on (Unicode Standard, section 4.6). */
function digitOf(code: number): number {
  let digit = 0;
  while (digit < 9 && /\p{Nd}/u.test(String.fromCodePoint(code - digit - 1))) digit += 1;
  return digit;
}
