/**
 * JSON with integers that no JavaScript number represents exactly: parsed here and serialised again, they keep their
 * digits. All JSON from clients and providers is parsed here; `scripts/import-rules.ts` checks that.
 */

/** ECMAScript, "JSON.parse source text access"; TypeScript's libraries do not declare it yet. */
interface SourceTextAccess {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
}

const sourceText = JSON as unknown as SourceTextAccess;

/** Numbers with fewer digits are below 2^53. */
const LONG = 16;
/** 1 for the codes of digits. */
const digits = new Uint8Array(0x80).fill(1, 0x30, 0x3a);
const INTEGER = /^-?\d+$/;

/**
 * Like `JSON.parse`, but an integer past 2^53 becomes an object that `JSON.stringify` writes as the same digits.
 * @throws SyntaxError
 */
export function parseExactly(text: string): unknown {
  if (!mayHoldLongNumber(text)) return JSON.parse(text);
  return sourceText.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && source !== undefined && INTEGER.test(source)
      ? sourceText.rawJSON(source)
      : value,
  );
}

/**
 * Whether 16 digits follow each other where a number can begin in JSON, so not within ids with as many digits. Reads
 * every sixteenth character, and its neighbours where that is a digit: such a sequence includes one of them.
 */
function mayHoldLongNumber(text: string): boolean {
  for (let at = LONG - 1; at < text.length; at += LONG) {
    if (digits[text.charCodeAt(at)] !== 1) continue;
    let from = at;
    while (from > 0 && digits[text.charCodeAt(from - 1)] === 1) from -= 1;
    let end = at + 1;
    while (end < text.length && digits[text.charCodeAt(end)] === 1) end += 1;
    if (end - from >= LONG && canPrecedeNumber(text, from)) return true;
    // The next character to read, counted from a character that is not a digit.
    at = end;
  }
  return false;
}

const BEFORE_NUMBER = /[\s[,:-]/;

function canPrecedeNumber(text: string, from: number): boolean {
  return from === 0 || BEFORE_NUMBER.test(text.charAt(from - 1));
}

/** Whether a value is one of those integers: an object in JavaScript, but not one in JSON. */
export function isExactNumber(value: unknown): boolean {
  return sourceText.isRawJSON(value);
}
