/** Text that can be printed: recorded or foreign text must not control a terminal. */

/**
 * C0 and C1 control characters but tab, line feed and the carriage return before one; characters that change the
 * direction of what follows (Unicode Standard Annex #9); and the two separators that begin a line elsewhere.
 */
const UNPRINTABLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression searches for them
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\r(?!\n)/g;

/** With such characters as `\u` and four hexadecimal digits: a JSON text stays the same JSON. Idempotent. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
