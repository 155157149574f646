/** JSON with integers that no JavaScript number can hold: they come through a translation as they were written. */

/** ECMAScript, "JSON.parse source text access"; TypeScript's libraries do not know it yet. */
interface SourceTextAccess {
  parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
}

const sourceText = JSON as unknown as SourceTextAccess;

const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d+$/;

/**
 * Like `JSON.parse`, but an integer past 2^53 becomes an object that `JSON.stringify` writes as the same digits.
 * @throws SyntaxError
 */
export function parseExactly(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  return sourceText.parse(text, (_key, value, { source }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && source !== undefined && INTEGER.test(source)
      ? sourceText.rawJSON(source)
      : value,
  );
}
