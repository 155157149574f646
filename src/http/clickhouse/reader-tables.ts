/**
 * Tables in a reader's query: those of the allowed databases, and those of ClickHouse's own databases that describe the
 * engine and no other users. A table's name must be in an allowed database. In addition, the names of ClickHouse's own
 * databases are refused anywhere without an allowed table, so that unusual positions are covered.
 */
import { isMark, isWord, type Token } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';
import { readableInformationSchema, readableSystemTables } from './system-tables.ts';

const ownDatabases: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['system', readableSystemTables],
  ['information_schema', readableInformationSchema],
]);

/** Clauses after which commas no longer separate tables. */
const clauses = [
  'select',
  'with',
  'prewhere',
  'where',
  'group',
  'having',
  'window',
  'qualify',
  'order',
  'limit',
  'offset',
  'settings',
  'format',
  'union',
  'intersect',
  'except',
];

/** @throws NotForReaders */
export function checkTables(tokens: readonly Token[], databases: ReadonlySet<string>): void {
  /** For each open parenthesis: whether a comma separates tables. */
  const inFrom = [false];
  let isAlias = false;
  for (const [at, token] of tokens.entries()) {
    const named: boolean = isAlias;
    isAlias = !named && isWord(token, 'as');
    if (token.kind === 'mark') {
      if (token.text === '(') inFrom.push(false);
      if (token.text === ')') inFrom.pop();
      if (token.text === ',' && inFrom.at(-1) === true) checkTable(tokens, at + 1, databases);
    }
    if (token.kind !== 'name') continue;
    checkOwn(tokens, at);
    if (token.quoted || named || isMark(tokens[at - 1], '.')) continue;
    if (token.name === 'from' ? !isWord(tokens[at - 1], 'distinct', 'fill') : isJoin(tokens, at)) {
      inFrom.splice(-1, 1, true);
      checkTable(tokens, at + 1, databases);
    } else if (clauses.includes(token.name) || (token.name === 'array' && isWord(tokens[at + 1], 'join'))) {
      inFrom.splice(-1, 1, false);
    } else if (token.name === 'table' || token.name === 'view') {
      checkTable(tokens, at + 1, databases);
    }
  }
}

function isJoin(tokens: readonly Token[], at: number): boolean {
  return isWord(tokens[at], 'join') && !isWord(tokens[at - 1], 'array');
}

/** A name with a dot begins with a database. */
function checkTable(tokens: readonly Token[], at: number, databases: ReadonlySet<string>): void {
  const database = tokens[at];
  if (database?.kind !== 'name' || !isMark(tokens[at + 1], '.')) return;
  if (databases.has(database.text) || ownDatabases.has(database.name)) return;
  throw new NotForReaders(`the database ${database.text} is not for readers`);
}

function checkOwn(tokens: readonly Token[], at: number): void {
  const token = tokens[at];
  if (token?.kind !== 'name') return;
  // A quoted name may contain the dot itself.
  const [database = '', ...inside] = token.name.split('.', 2);
  const allowed = ownDatabases.get(database);
  if (allowed === undefined) return;
  if (inside.length > 0) throw new NotForReaders(`${token.text} is not for readers`);
  const table = isMark(tokens[at + 1], '.') ? tokens[at + 2] : undefined;
  if (table?.kind === 'name' && allowed.has(table.name)) return;
  throw new NotForReaders(`${token.text}${table === undefined ? '' : `.${table.text}`} is not for readers`);
}
