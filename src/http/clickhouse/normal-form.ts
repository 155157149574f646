/** The ClickHouse query that returns the normal form of another query. */

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
