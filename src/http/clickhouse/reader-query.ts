/**
 * Decides which queries a reader may execute. ClickHouse's own `readonly` does not keep readers from files
 * (`file('…')`, `INTO OUTFILE`), from the queries of others (`system.processes`, `KILL QUERY`) or from `SYSTEM`. So
 * statements, tables, functions, formats and settings are compared with lists of allowed ones.
 *
 * The check reads ClickHouse's normal form of the query, and that form is executed afterwards: text that the form omits
 * has no effect. Takes time in proportion to the length of the form.
 */
import { allowedFunctions } from './allowed-functions.ts';
import { readableInformationSchema, readableSystemTables } from './engine-access.ts';
import { readerFormat } from './formats.ts';
import { isMark, isWord, LONGEST_FORM, NotNormal, type Token, tokensOf } from './normal-form.ts';

/** A reader's query that is refused. The message states the part that readers may not use. */
export class NotForReaders extends Error {
  /** ClickHouse's code: 164 is a query that is not allowed in readonly mode, 73 an unknown format. */
  readonly code: 164 | 73;
  constructor(message: string, code: 164 | 73 = 164) {
    super(message);
    this.code = code;
  }
}

/**
 * Tables in a reader's query: those of the allowed databases, and those of ClickHouse's own databases that describe the
 * engine and no other users. A table's name must be in an allowed database. In addition, the names of ClickHouse's own
 * databases are refused anywhere without an allowed table, so that unusual positions are covered.
 */
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
function checkTables(tokens: readonly Token[], databases: ReadonlySet<string>): void {
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

interface ReaderContext {
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

/** Replaces `{name: Identifier}` in a query by its value, so that it is checked like any other name. */
const plainNames = /^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*$/;

/**
 * The tokens with the identifiers in place of their parameters, and without the types of other parameters.
 * @throws NotForReaders for an identifier that is missing or not plain
 */
function withIdentifiers(tokens: readonly Token[], parameters: ReadonlyMap<string, string>): Token[] {
  const all: Token[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at];
    if (token === undefined) break;
    if (token.text !== '{' || token.kind !== 'mark') {
      all.push(token);
      continue;
    }
    const [name, colon, type] = [tokens[at + 1], tokens[at + 2], tokens[at + 3]];
    if (name?.kind !== 'name' || colon?.text !== ':' || type?.kind !== 'name') {
      throw new NotForReaders('braces are allowed only for parameters');
    }
    if (type.name === 'identifier') all.push(...namesOf(name.text, parameters.get(name.text)));
    else all.push({ kind: 'parameter', text: name.text });
    at = endOfBraces(tokens, at + 4);
  }
  return all;
}

function namesOf(parameter: string, value: string | undefined): Token[] {
  if (value === undefined) throw new NotForReaders(`the parameter ${parameter} has no value`);
  if (!plainNames.test(value)) throw new NotForReaders(`the parameter ${parameter} is not a plain name`);
  return value.split('.').flatMap((text, index): Token[] => {
    const name: Token = { kind: 'name', name: text.toLowerCase(), text, quoted: true };
    return index === 0 ? [name] : [{ kind: 'mark', text: '.' }, name];
  });
}

function endOfBraces(tokens: readonly Token[], from: number): number {
  for (let at = from; at < tokens.length; at++) if (tokens[at]?.text === '}') return at;
  throw new NotForReaders('a parameter does not end');
}

/** The clauses at the end of a reader's query: `FORMAT name`, `SETTINGS name = value, …`, in either order. */
interface EndClauses {
  readonly format: string | undefined;
  /** By name. With `readonly`, ClickHouse accepts only settings that already have this value. */
  readonly settings: ReadonlyMap<string, string>;
}

/** @throws NotForReaders for a clause not at the end, a format that is not allowed, a value that is not a literal */
function endClauses(tokens: readonly Token[]): EndClauses {
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

// Statements that readers may execute: they return rows, and change and stop nothing.

/** Allowed words after SHOW; those about servers, users and other users' queries are excluded. */
const shown = [
  ['tables'],
  ['databases'],
  ['columns'],
  ['full', 'columns'],
  ['extended', 'columns'],
  ['extended', 'full', 'columns'],
  ['indexes'],
  ['functions'],
  ['settings'],
  ['changed', 'settings'],
  ['create', 'table'],
  ['create', 'view'],
  ['create', 'database'],
];

const existing = [['table'], ['view'], ['database']];

const explanations = [[], ['ast'], ['syntax'], ['query', 'tree'], ['plan'], ['pipeline'], ['estimate']];

/** @throws NotForReaders */
function checkStatement(tokens: readonly Token[]): void {
  checkKeywords(tokens);
  const first = tokens[0];
  if (beginsSelect(tokens, 0)) return;
  if (isWord(first, 'show') && beginsWithOne(tokens, 1, shown)) return;
  if (isWord(first, 'exists') && beginsWithOne(tokens, 1, existing)) return;
  if (isWord(first, 'describe') && isWord(tokens[1], 'table')) return;
  if (isWord(first, 'explain')) {
    const kind = explanations.findLast((words) => beginsWith(tokens, 1, words)) ?? [];
    if (beginsSelect(tokens, afterOptions(tokens, 1 + kind.length))) return;
  }
  const words = tokens.slice(0, 3).flatMap((token) => (token.kind === 'name' ? [token.text] : []));
  throw new NotForReaders(
    `${words.join(' ')} is not for readers: SELECT, SHOW TABLES and such, DESCRIBE, EXISTS and EXPLAIN SELECT are`,
  );
}

/** Refuses these keywords anywhere: a statement that returns rows does not need them. */
function checkKeywords(tokens: readonly Token[]): void {
  for (const [at, token] of tokens.entries()) {
    if (isWord(token, 'outfile', 'infile')) throw new NotForReaders(`${token.text} is not for readers`);
    if (isWord(token, 'insert') && isWord(tokens[at + 1], 'into')) throw new NotForReaders('INSERT is not for readers');
    if (isWord(token, 'parallel') && isWord(tokens[at + 1], 'with')) {
      throw new NotForReaders('PARALLEL WITH is not for readers');
    }
  }
}

function beginsSelect(tokens: readonly Token[], from: number): boolean {
  let at = from;
  while (isMark(tokens[at], '(')) at += 1;
  return isWord(tokens[at], 'select', 'with');
}

/** Skips `name = number, …`, as in `EXPLAIN indexes = 1 SELECT`. */
function afterOptions(tokens: readonly Token[], from: number): number {
  let at = from;
  while (tokens[at]?.kind === 'name' && isMark(tokens[at + 1], '=') && tokens[at + 2]?.kind === 'number') {
    at += isMark(tokens[at + 3], ',') ? 4 : 3;
  }
  return at;
}

function beginsWithOne(tokens: readonly Token[], from: number, choices: readonly (readonly string[])[]): boolean {
  return choices.some((words) => beginsWith(tokens, from, words));
}

function beginsWith(tokens: readonly Token[], from: number, words: readonly string[]): boolean {
  return words.every((word, index) => isWord(tokens[from + index], word));
}

// Functions in a reader's query. Every called function must be allowed. A function can also be passed by its bare name
// (`arrayMap(file, …)`, `* APPLY file`, `WITH file AS f`), so names of functions that are not allowed are refused
// anywhere, whatever they mean there.

/** Table functions that generate rows. */
const tableFunctions = new Set([
  'generate_series',
  'generaterandom',
  'generateseries',
  'null',
  'numbers',
  'numbers_mt',
  'primes',
  'sqlstandardvalues',
  'values',
  'view',
  'zeros',
  'zeros_mt',
]);

/** Keywords before a parenthesis that is not a call. */
const words = new Set(
  `all and any anti apply array as asc asof between by columns cross cube desc describe distinct else except exists
  explain fill filter first following from full global group having ilike in inner interpolate intersect is join last
  left like limit materialized not nulls offset on or order outer over partition paste plan pipeline preceding prewhere
  qualify range recursive replace right rollup row rows sample select semi sets settings step strict syntax table then
  to totals tree union using view when where window with`.split(/\s+/),
);

/** Called like functions, but part of the language. */
const ofTheLanguage = new Set(['exists', 'grouping']);

/** Suffixes of aggregate functions, which can be repeated. Lower case. */
const combinators = [
  'argmax',
  'argmin',
  'array',
  'distinct',
  'foreach',
  'if',
  'map',
  'merge',
  'null',
  'ordefault',
  'ornull',
  'resample',
  'simplestate',
  'state',
  'tuple',
];

/** @throws NotForReaders */
function checkNames(tokens: readonly Token[], engineFunctions: ReadonlySet<string>): void {
  for (const [at, token] of tokens.entries()) {
    if (token.kind !== 'name') continue;
    const { name, text, quoted } = token;
    if (engineFunctions.has(name) && !allowedFunctions.has(name)) {
      throw new NotForReaders(`${text} is not among the functions for readers, and their names are not either`);
    }
    if (!isMark(tokens[at + 1], '(')) continue;
    if (isCallable(name) || tableFunctions.has(name) || (!quoted && words.has(name))) continue;
    throw new NotForReaders(`${text}(…) is not among the functions for readers`);
  }
}

const LONGEST_NAME = 128;

/** @param name in lower case */
function isCallable(name: string): boolean {
  if (name.length > LONGEST_NAME) return false;
  if (allowedFunctions.has(name) || ofTheLanguage.has(name)) return true;
  return combinators.some((suffix) => name.endsWith(suffix) && isCallable(name.slice(0, -suffix.length)));
}
