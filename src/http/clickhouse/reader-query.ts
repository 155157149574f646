/**
 * Decides which queries a reader may execute. ClickHouse's own `readonly` does not keep readers from files
 * (`file('…')`, `INTO OUTFILE`), from the queries of others (`system.processes`, `KILL QUERY`) or from `SYSTEM`. So
 * statements, tables, functions, formats and settings are compared with lists of allowed ones.
 *
 * The check reads ClickHouse's normal form of the query, and that form is executed afterwards: text that the form omits
 * has no effect. Takes time in proportion to the length of the form.
 */
import { withIdentifiers } from './identifier-parameters.ts';
import { LONGEST_FORM } from './normal-form.ts';
import { NotNormal, type Token, tokensOf } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';
import { type EndClauses, endClauses } from './reader-clauses.ts';
import { checkNames } from './reader-names.ts';
import { checkStatement } from './reader-statement.ts';
import { checkTables } from './reader-tables.ts';

export interface ReaderContext {
  /** Values of `{name: Type}` in the query. */
  readonly parameters: ReadonlyMap<string, string>;
  /** Databases whose tables may be named. */
  readonly databases: ReadonlySet<string>;
  /** All functions of the engine, in lower case. */
  readonly engineFunctions: ReadonlySet<string>;
}

export interface ReaderQuery extends EndClauses {
  /** To be executed in place of the client's text. */
  readonly text: string;
}

/** @param form ClickHouse's normal form, one character per byte. @throws NotForReaders */
export function readerQuery(form: string, context: ReaderContext): ReaderQuery {
  if (form.length > LONGEST_FORM) throw new NotForReaders('a query this long');
  const tokens = withIdentifiers(tokensOfForm(form), context.parameters);
  checkStatement(tokens);
  checkNames(tokens, context.engineFunctions);
  checkTables(tokens, context.databases);
  return { text: inAscii(form), ...endClauses(tokens) };
}

function tokensOfForm(form: string): Token[] {
  try {
    return tokensOf(form);
  } catch (error) {
    if (error instanceof NotNormal) throw new NotForReaders(`the query is not understood: ${error.message}`);
    throw error;
  }
}

/** Non-ASCII bytes occur only between quotes, where ClickHouse reads an escape for them. */
function inAscii(form: string): string {
  return form.replaceAll(/[\x80-\xff]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16)}`);
}
