/**
 * Which queries a stranger may ask. ClickHouse's own `readonly` keeps them from changing anything, but embedded it lets
 * through what reads files (`file('…')`), writes them (`INTO OUTFILE`) and stops the queries of others (`KILL QUERY`).
 *
 * The text is looked at as it stands, strings and comments included, so that nothing can hide in what is taken for one:
 * rather one harmless query too many is refused. Names before a parenthesis count, however far away it is.
 */

/** Why the query is refused, or undefined when it is not. @param outward names in lower case that reach outside */
export function reasonToRefuse(sql: string, outward: ReadonlySet<string>): string | undefined {
  const first = firstWord(sql);
  if (!readers.has(first)) {
    return `${first === '' ? 'an empty query' : first.toUpperCase()} is not for readers: SELECT, WITH, SHOW, DESCRIBE, EXPLAIN and EXISTS are`;
  }
  for (const { word, at, end } of wordsOf(sql)) {
    if (word === 'outfile' || word === 'infile') return `${word.toUpperCase()} is not for readers`;
    if (word === 'kill' && /^(query|mutation|transaction|part_move_to_shard)$/.test(wordAfter(sql, end))) {
      return 'KILL is not for readers';
    }
    if (outward.has(word) && opensCall(sql, end)) {
      return `${sql.slice(at, end)}(…) reaches outside the tables and is not for readers`;
    }
  }
  for (const quote of sql.matchAll(/["`”]/g)) {
    if (opensCall(sql, quote.index + 1))
      return 'a quoted name before a parenthesis is not for readers: write functions plainly';
  }
  return undefined;
}

const readers = new Set(['select', 'with', 'from', 'show', 'describe', 'desc', 'explain', 'exists']);

/** The first word of the statement, after comments and opening parentheses; in lower case. */
export function firstWord(sql: string): string {
  let at = 0;
  for (;;) {
    at = afterBlank(sql, at);
    if (sql[at] !== '(') break;
    at += 1;
  }
  return (/^\w+/.exec(sql.slice(at, at + 64))?.[0] ?? '').toLowerCase();
}

function* wordsOf(sql: string): Iterable<{ readonly word: string; readonly at: number; readonly end: number }> {
  for (const found of sql.matchAll(/[A-Za-z_]\w*/g)) {
    yield { word: found[0].toLowerCase(), at: found.index, end: found.index + found[0].length };
  }
}

function wordAfter(sql: string, at: number): string {
  const start = afterBlank(sql, at);
  return (/^\w+/.exec(sql.slice(start, start + 64))?.[0] ?? '').toLowerCase();
}

/** Whether the next thing that is neither blank nor comment, nor the end of a quoted name, is a parenthesis. */
function opensCall(sql: string, at: number): boolean {
  return sql[afterBlank(sql, at, /["`”]/)] === '(';
}

/** Past white space of any kind, comments, and what else is named. */
function afterBlank(sql: string, at: number, also?: RegExp): number {
  for (;;) {
    const character = sql[at];
    if (character === undefined) return at;
    const two = sql.slice(at, at + 2);
    if (two === '/*') {
      const end = sql.indexOf('*/', at + 2);
      at = end === -1 ? sql.length : end + 2;
    } else if (two === '--' || two === '//' || character === '#') {
      const end = sql.indexOf('\n', at);
      at = end === -1 ? sql.length : end + 1;
    } else if (/[\s\p{C}\p{Z}]/u.test(character) || also?.test(character) === true) at += 1;
    else return at;
  }
}
