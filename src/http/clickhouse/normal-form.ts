/** The normal form of a query: the ClickHouse query that returns it, and its tokens. */

/** Limit of a reader's query, in bytes. A longer one is refused before any other check. */
export const LONGEST_QUERY = 256 * 1024;

/** In bytes: the normal form adds a space after each comma, and optional parentheses. */
export const LONGEST_FORM = 2 * LONGEST_QUERY;

/** `max_query_size` of ClickHouse: a form in which each byte is an escape, or a query in which each is escaped. */
export const LONGEST_TEXT = 4 * LONGEST_FORM + 1024;

/** The query's only value is the normal form, without escapes. */
export function normalFormQuery(sql: string): string {
  return `SELECT formatQuerySingleLine(${literal(sql)})`;
}

const scope = ': In scope SELECT formatQuerySingleLine(';

/** ClickHouse's message about a query, without the part about the query for its normal form. */
export function withoutScope(message: string): string {
  const from = message.indexOf(scope);
  return from === -1 ? message : message.slice(0, from) + message.slice(message.lastIndexOf('. ('));
}

export function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/**
 * Splits ClickHouse's normal form of a query into tokens, in one pass. The normal form has no comments and one way to
 * quote, so any other text is refused rather than interpreted.
 */
export type Token =
  /** A word, or text between backquotes or double quotes. `name` is in lower case. */
  | { readonly kind: 'name'; readonly name: string; readonly text: string; readonly quoted: boolean }
  /** Text between single quotes. `text` includes the quotes. */
  | { readonly kind: 'string'; readonly text: string }
  | { readonly kind: 'number'; readonly text: string }
  /** A value sent separately from the query. `text` is its name. */
  | { readonly kind: 'parameter'; readonly text: string }
  /** Any other single character. */
  | { readonly kind: 'mark'; readonly text: string };

/** The message states the part that differs from the normal form. */
export class NotNormal extends Error {}

const marks = new Set('()[]{},.:+-*/%=!<>^');
const openers = new Set(['--', '//', '/*']);
const word = /[A-Za-z_][A-Za-z0-9_]*/y;
const number = /[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?/y;

/** @param form one character per byte. @returns no parameters: they are braces here. @throws NotNormal */
export function tokensOf(form: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  while (at < form.length) {
    const character = form.charAt(at);
    if (character === ' ') {
      at += 1;
    } else if (character === "'" || character === '`' || character === '"') {
      const end = endOfQuoted(form, at, character);
      const text = form.slice(at, end);
      tokens.push(character === "'" ? { kind: 'string', text } : quotedName(text));
      at = end;
    } else if (matchAt(word, form, at)) {
      const text = form.slice(at, word.lastIndex);
      tokens.push({ kind: 'name', name: text.toLowerCase(), text, quoted: false });
      at = word.lastIndex;
    } else if (matchAt(number, form, at)) {
      const end = number.lastIndex;
      // ClickHouse may read `1file` as a name.
      if (matchAt(word, form, end)) throw new NotNormal(`what follows the number at ${at}`);
      tokens.push({ kind: 'number', text: form.slice(at, end) });
      at = end;
    } else if (marks.has(character) && !openers.has(form.slice(at, at + 2))) {
      tokens.push({ kind: 'mark', text: character });
      at += 1;
    } else throw new NotNormal(`${JSON.stringify(form.slice(at, at + 8))} at ${at}`);
  }
  return tokens;
}

function matchAt(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}

/** Past the closing quote: a quote neither escaped by a backslash nor followed by another. */
function endOfQuoted(form: string, start: number, quote: string): number {
  for (let at = start + 1; at < form.length; at++) {
    const character = form.charAt(at);
    if (character === '\\') at += 1;
    else if (character === quote) {
      if (form.charAt(at + 1) !== quote) return at + 1;
      at += 1;
    }
  }
  throw new NotNormal(`a quote that is not closed at ${start}`);
}

/** Escapes for characters that allowed names do not contain; they could hide a name. */
const foreignEscape = /\\[^'"`\\bfnrt]/;

function quotedName(quoted: string): Token {
  const text = quoted.slice(1, -1);
  if (foreignEscape.test(text.replaceAll('\\\\', ''))) throw new NotNormal('an escape in a quoted name');
  return { kind: 'name', name: text.toLowerCase(), text, quoted: true };
}

/** Whether the token is one of these words, unquoted. @param words in lower case */
export function isWord(token: Token | undefined, ...words: readonly string[]): boolean {
  return token?.kind === 'name' && !token.quoted && words.includes(token.name);
}

export function isMark(token: Token | undefined, mark: string): boolean {
  return token?.kind === 'mark' && token.text === mark;
}
