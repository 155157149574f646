/** The clauses at the end of a reader's query: `FORMAT name`, `SETTINGS name = value, …`, in either order. */
import { readerFormat } from './formats.ts';
import { isMark, isWord, type Token } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';

export interface EndClauses {
  readonly format: string | undefined;
  /** By name. With `readonly`, ClickHouse accepts only settings that already have this value. */
  readonly settings: ReadonlyMap<string, string>;
}

/** @throws NotForReaders for a clause not at the end, a format that is not allowed, a value that is not a literal */
export function endClauses(tokens: readonly Token[]): EndClauses {
  let format: string | undefined;
  const settings = new Map<string, string>();
  let depth = 0;
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at];
    if (isMark(token, '(')) depth += 1;
    if (isMark(token, ')')) depth -= 1;
    if (isClause(tokens, at, 'settings') && isMark(tokens[at + 2], '=')) {
      if (depth > 0) throw new NotForReaders('SETTINGS is allowed only at the end of a query');
      at = readSettings(tokens, at + 1, settings);
      if (tokens[at] !== undefined && !isClause(tokens, at, 'format')) {
        throw new NotForReaders('SETTINGS is allowed only at the end of a query');
      }
      at -= 1;
    } else if (isClause(tokens, at, 'format') && isEnd(tokens, at + 2)) {
      const name = tokens[at + 1]?.text ?? '';
      format = readerFormat(name);
      if (format === undefined) throw new NotForReaders(`the format ${name} is not for readers`, 73);
    }
  }
  return { format, settings };
}

/** Whether the keyword is followed by a name, and is not a column of that name with its order. */
function isClause(tokens: readonly Token[], at: number, keyword: string): boolean {
  const next = tokens[at + 1];
  return isWord(tokens[at], keyword) && next?.kind === 'name' && !isWord(next, 'asc', 'desc');
}

function isEnd(tokens: readonly Token[], at: number): boolean {
  return tokens[at] === undefined || isWord(tokens[at], 'settings');
}

/** @returns the index after the last setting */
function readSettings(tokens: readonly Token[], from: number, settings: Map<string, string>): number {
  for (let at = from; ; at += 4) {
    const name = tokens[at];
    if (name?.kind !== 'name' || !isMark(tokens[at + 1], '=')) throw new NotForReaders('a setting has no value');
    settings.set(name.text, literalOf(name.text, tokens[at + 2]));
    if (!isMark(tokens[at + 3], ',')) return at + 3;
  }
}

function literalOf(name: string, token: Token | undefined): string {
  if (token?.kind === 'number') return token.text;
  if (token?.kind === 'string' && !token.text.includes('\\')) return token.text.slice(1, -1);
  if (isWord(token, 'true')) return '1';
  if (isWord(token, 'false')) return '0';
  throw new NotForReaders(`the value of the setting ${name} is not a plain number or text`);
}
