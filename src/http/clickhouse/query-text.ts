/** Reads the parts of a query that are needed before it is executed. */

/** The format in the query's final clause, as in `… FORMAT JSON`. Only for the writer's queries: it can be slow. */
export function formatIn(sql: string): string | undefined {
  return /\bFORMAT\s+([A-Za-z]\w*)\s*(?:SETTINGS\s[^;]*)?;?\s*$/i.exec(sql)?.[1];
}

/** The first word, in lower case. Only for the writer's queries, which begin with it. */
export function firstWord(sql: string): string {
  return (/^\s*(\w+)/.exec(sql)?.[1] ?? '').toLowerCase();
}

/** Without semicolons and whitespace at the end. */
export function trimmed(sql: string): string {
  let end = sql.length;
  while (end > 0 && /[\s;]/.test(sql.charAt(end - 1))) end -= 1;
  return sql.slice(0, end);
}

export interface InsertText {
  readonly table: string;
  readonly columns: readonly string[] | undefined;
  readonly format: string;
}

const name = '(?:`[^`\\\\]+`|"[^"\\\\]+"|\\w+)';
const insertPattern = new RegExp(
  `^\\s*INSERT\\s+INTO\\s+(?:TABLE\\s+)?(${name}(?:\\s*\\.\\s*${name})?)\\s*(?:\\(([^()]*)\\))?\\s*FORMAT\\s+(\\w+)\\s*;?\\s*$`,
  'i',
);

/** The parts of `INSERT INTO table (columns) FORMAT format`; undefined for any other query. */
export function insertIn(sql: string): InsertText | undefined {
  const found = insertPattern.exec(sql);
  const [, table, columns, format] = found ?? [];
  if (table === undefined || format === undefined) return undefined;
  return {
    table: table.split('.').map(plain).join('.'),
    columns: columns === undefined || columns.trim() === '' ? undefined : columns.split(',').map(plain),
    format,
  };
}

function plain(quoted: string): string {
  return quoted.trim().replace(/^["`]|["`]$/g, '');
}
