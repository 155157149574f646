/**
 * JSON with integers that no JavaScript number holds exactly: what is parsed here and serialised again has the same
 * digits. Everything that clients and providers send is parsed here; `scripts/arrows.ts` checks that.
 */

/** ECMAScript, "JSON.parse source text access"; TypeScript's libraries do not know it yet. */
interface SourceTextAccess {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
}

const sourceText = JSON as unknown as SourceTextAccess;

/** Quick to rule out. */
const MANY_DIGITS = /\d{16}/;
/** Where a number can begin in JSON: not within the ids that hold as many digits. */
const LONG_NUMBER = /(?:^|[\s[,:-])\d{16}/;
const INTEGER = /^-?\d+$/;

/**
 * Like `JSON.parse`, but an integer past 2^53 becomes an object that `JSON.stringify` writes as the same digits.
 * @throws SyntaxError
 */
export function parseExactly(text: string): unknown {
  if (!MANY_DIGITS.test(text) || !LONG_NUMBER.test(text)) return JSON.parse(text);
  return sourceText.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && source !== undefined && INTEGER.test(source)
      ? sourceText.rawJSON(source)
      : value,
  );
}

/** Whether a value is one of those integers: an object to JavaScript, and none of JSON's. */
export function isExactNumber(value: unknown): boolean {
  return sourceText.isRawJSON(value);
}
