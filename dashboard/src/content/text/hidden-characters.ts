/**
 * Characters that a reader does not see, or that change how others look: control characters, terminal escapes,
 * direction marks, zero-width and tag characters. They are shown as marks, never passed to the page.
 */
export type TextPiece =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'mark';
      /** Short and visible: `ESC[31m`, `U+202E`, `U+200B ×12`. */
      readonly label: string;
      /** A sentence for people and screen readers. */
      readonly title: string;
      /** What stands in the text. */
      readonly source: string;
    };

/** A text node of the page is never longer than this. */
const MAX_TEXT = 32_768;
/** Further marks of one text are written into it, without elements of their own. */
const MAX_MARKS = 1_000;

/**
 * In this order: terminal escapes; lone carriage returns and other controls except tab and line feed; invisible
 * characters; tags; stacked accents after the eighth.
 */
const escapeCharacter = String.fromCharCode(0x1b);
const hidden = new RegExp(
  [
    `${escapeCharacter}\\[[0-?]{0,32}[ -/]{0,8}[@-~]`,
    '\\r(?!\\n)',
    '(?![\\t\\n\\r])\\p{Cc}',
    '[\\p{Cf}\\p{Cs}\\p{Default_Ignorable_Code_Point}\\p{Zl}\\p{Zp}\\ufffc\\ufffe\\uffff]',
    '(?<=\\p{M}{8})\\p{M}+',
  ].join('|'),
  'gu',
);

/** Format characters that are visible: signs before numbers and verses. */
const visibleFormat = /[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}]/u;

/** ISO 646: the usual abbreviations. Fonts often lack the symbols of Unicode's block for them. */
const abbreviations: Readonly<Record<number, string>> = Object.fromEntries([
  ...'NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'
    .split(' ')
    .map((abbreviation, code) => [code, abbreviation]),
  [0x7f, 'DEL'],
]);

const names: Readonly<Record<number, string>> = {
  0: 'NUL',
  7: 'bell',
  8: 'backspace',
  13: 'carriage return without line feed',
  27: 'escape',
  127: 'delete',
  173: 'soft hyphen',
  1564: 'Arabic letter mark',
  6158: 'Mongolian vowel separator',
  8203: 'zero width space',
  8204: 'zero width non-joiner',
  8205: 'zero width joiner',
  8206: 'left-to-right mark',
  8207: 'right-to-left mark',
  8232: 'line separator',
  8233: 'paragraph separator',
  8234: 'left-to-right embedding',
  8235: 'right-to-left embedding',
  8236: 'pop directional formatting',
  8237: 'left-to-right override',
  8238: 'right-to-left override',
  8288: 'word joiner',
  8294: 'left-to-right isolate',
  8295: 'right-to-left isolate',
  8296: 'first strong isolate',
  8297: 'pop directional isolate',
  12644: 'Hangul filler',
  65279: 'byte order mark',
  65532: 'object replacement character',
};

/** The text in pieces of at most 32,768 characters: what can be shown as it is, and marks. */
export function piecesOf(text: string): TextPiece[] {
  const pieces: TextPiece[] = [];
  let plain = '';
  let marks = 0;
  const flush = () => {
    for (let at = 0; at < plain.length; ) {
      const end = endOfPart(plain, at, MAX_TEXT);
      pieces.push({ kind: 'text', text: plain.slice(at, end) });
      at = end;
    }
    plain = '';
  };
  let from = 0;
  hidden.lastIndex = 0;
  for (let match = hidden.exec(text); match !== null; match = hidden.exec(text)) {
    const [found] = match;
    if (isOrdinary(text, match.index, found)) continue;
    const end = endOfRun(text, match.index, found);
    plain += text.slice(from, match.index);
    from = end;
    hidden.lastIndex = end;
    const source = text.slice(match.index, end);
    const { label, title } = describe(source, found);
    if (marks < MAX_MARKS) {
      flush();
      pieces.push({ kind: 'mark', label, title, source });
      marks += 1;
    } else plain += `⟨${label}⟩`;
  }
  plain += text.slice(from);
  flush();
  return pieces;
}

/** The text with every hidden character written as its mark: for attributes, titles and copied code. */
export function visibleText(text: string): string {
  return piecesOf(text)
    .map((piece) => (piece.kind === 'text' ? piece.text : `⟨${piece.label}⟩`))
    .join('');
}

/** Whether a text contains a character that is shown as a mark. */
export function hasHidden(text: string): boolean {
  return piecesOf(text).some(({ kind }) => kind === 'mark');
}

/** The end of a part of at most `max` characters that does not split a surrogate pair. */
function endOfPart(text: string, at: number, max: number): number {
  const end = Math.min(text.length, at + max);
  const last = text.charCodeAt(end - 1);
  return end < text.length && last >= 0xd800 && last < 0xdc00 ? end - 1 : end;
}

const pictograph = /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)$/u;
const joinedScript =
  /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}\p{Script=Mongolian}]/u;

/** Whether the character belongs to ordinary writing here: emoji sequences, joiners within scripts that need them. */
function isOrdinary(text: string, at: number, found: string): boolean {
  if (visibleFormat.test(found)) return true;
  const before = text.slice(Math.max(0, at - 2), at);
  const after = text.slice(at + found.length, at + found.length + 2);
  const code = found.codePointAt(0) ?? 0;
  if (code === 0x200d && pictograph.test(before)) return /^\p{Extended_Pictographic}/u.test(after);
  if (code === 0x200c || code === 0x200d)
    return joinedScript.test(before.slice(-1)) && joinedScript.test(after.slice(0, 1));
  // One variation selector after a visible character; further ones can carry hidden data.
  if (code >= 0xfe00 && code <= 0xfe0f) return /[\p{L}\p{N}\p{P}\p{S}]$/u.test(before);
  if (code >= 0xe0100 && code <= 0xe01ef) return /\p{Ideographic}$/u.test(before);
  return false;
}

/** The end of the same character repeated; of tags and variation selectors, the end of all that follow each other. */
function endOfRun(text: string, at: number, found: string): number {
  const code = found.codePointAt(0) ?? 0;
  if (code >= 0xe0000 && code <= 0xe0fff) return endOf(/[\u{e0000}-\u{e0fff}]+/uy, text, at);
  if (code >= 0xfe00 && code <= 0xfe0f) return endOf(/[\ufe00-\ufe0f\u{e0100}-\u{e01ef}]+/uy, text, at);
  let end = at + found.length;
  if (found.length <= 2 && found !== '\r') while (text.codePointAt(end) === code) end += found.length;
  return end;
}

function endOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at + 1;
}

function describe(source: string, found: string): { label: string; title: string } {
  const code = found.codePointAt(0) ?? 0;
  if (code === 0x1b) {
    const rest = found.slice(1);
    if (rest !== '') return { label: `ESC${rest}`, title: `Terminal escape sequence: ESC ${rest}` };
    return repeated('ESC', 'Control character U+001B, escape', source.length);
  }
  if (code >= 0xe0000 && code <= 0xe0fff) return describeTags(source);
  if (code >= 0xfe00 && code <= 0xfe0f) {
    const count = [...source].length;
    return repeated(`${hexadecimal(code)}…`, 'Variation selectors without a character to vary', count);
  }
  if (/^\p{M}/u.test(found) && !/^\p{Default_Ignorable_Code_Point}/u.test(found)) {
    return {
      label: `+${[...found].length} accents`,
      title: `${[...found].length} more combining characters on the same letter`,
    };
  }
  const name = names[code];
  const count = source.length / found.length;
  const called = `${hexadecimal(code)}${name === undefined ? '' : `, ${name}`}`;
  const control = abbreviations[code];
  if (control !== undefined) return repeated(control, `Control character ${called}`, count);
  if (code >= 0xd800 && code <= 0xdfff) return repeated(hexadecimal(code), `Half of a character: ${called}`, count);
  return repeated(hexadecimal(code), `Invisible character ${called}`, count);
}

function repeated(label: string, title: string, count: number): { label: string; title: string } {
  return count === 1 ? { label, title } : { label: `${label} ×${count}`, title: `${title}, ${count} times` };
}

/** Tag characters repeat ASCII invisibly: models read them, people do not. */
function describeTags(source: string): { label: string; title: string } {
  const codes = [...source].map((character) => character.codePointAt(0) ?? 0);
  const hiddenText = codes
    .filter((code) => code >= 0xe0020 && code < 0xe007f)
    .map((code) => String.fromCharCode(code - 0xe0000))
    .join('');
  const shown = hiddenText.length > 200 ? `${hiddenText.slice(0, 200)}…` : hiddenText;
  return {
    label: shown === '' ? `tags ×${codes.length}` : `tags “${shown}”`,
    title: `${codes.length} invisible tag characters${shown === '' ? '' : ` that spell: ${shown}`}`,
  };
}

function hexadecimal(code: number): string {
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}
