/** How ClickHouse is asked for the normal form of a query. */

/** Of a reader's query, in bytes. A longer one is refused before anything is done with it. */
export const LONGEST_QUERY = 256 * 1024;

/** In bytes: a form has a blank after each comma, and parentheses that the query may leave out. */
export const LONGEST_FORM = 2 * LONGEST_QUERY;

/** `max_query_size` of ClickHouse: a form in which each byte is an escape, or a query in which each is escaped. */
export const LONGEST_TEXT = 4 * LONGEST_FORM + 1024;

/** Its one value, without any escape, is the form. */
export function normalFormQuery(sql: string): string {
  return `SELECT formatQuerySingleLine(${literal(sql)})`;
}

const scope = ': In scope SELECT formatQuerySingleLine(';

/** A message of ClickHouse about the query itself, and not about the one that asks for its form. */
export function withoutScope(message: string): string {
  const from = message.indexOf(scope);
  return from === -1 ? message : message.slice(0, from) + message.slice(message.lastIndexOf('. ('));
}

export function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
