/** Completion of names in a query: tables, columns of the tables that it names, functions and words of SQL. Pure. */
import { codeOf } from './query-text.ts';

export interface ReferenceColumn {
  readonly name: string;
  readonly type: string;
  readonly about: string;
}

export interface ReferenceTable {
  readonly name: string;
  readonly about: string;
  readonly columns: readonly ReferenceColumn[];
}

export interface SqlReference {
  readonly tables: readonly ReferenceTable[];
  readonly functions: readonly string[];
}

export interface Completion {
  readonly kind: 'table' | 'column' | 'function' | 'word';
  readonly name: string;
  /** The type of a column, or what a table is. */
  readonly detail: string;
  /** What is put in the place of the begun word. */
  readonly insert: string;
}

export interface Completions {
  /** Where the begun word is. */
  readonly start: number;
  readonly end: number;
  readonly found: readonly Completion[];
}

const MOST = 12;

const words =
  'SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT WITH AS AND OR NOT IN BETWEEN LIKE ILIKE IS NULL DISTINCT INTERVAL DAY HOUR MINUTE WEEK MONTH LEFT INNER JOIN ON USING ARRAY JOIN CASE WHEN THEN ELSE END ASC DESC UNION ALL OVER PARTITION SHOW TABLES DESCRIBE'.split(
    ' ',
  );

/** At the caret. @returns undefined within a string or a comment, and where no word is begun */
export function completionsAt(text: string, caret: number, reference: SqlReference): Completions | undefined {
  const code = codeOf(text);
  const begun = /[\w.]*$/.exec(code.slice(0, caret))?.[0] ?? '';
  const start = caret - begun.length;
  if (text.slice(start, caret) !== begun || isInText(text, caret) || /^\d/.test(begun)) return undefined;
  const named = tablesIn(code, reference.tables);
  const found = isTablePlace(code.slice(0, start))
    ? reference.tables.map(tableCompletion)
    : [...columnCompletions(begun, named, reference.tables), ...otherCompletions(begun, reference)];
  return { start, end: caret, found: ranked(found, begun).slice(0, MOST) };
}

/** The end of the text up to the caret is blank in the code, but not in the text. */
function isInText(text: string, caret: number): boolean {
  const mark = 'x';
  return codeOf(`${text.slice(0, caret)}${mark}`).at(-1) !== mark;
}

function isTablePlace(code: string): boolean {
  return /\b(?:from|join|describe|table)\s+(?:\w+\.)?$/i.test(code);
}

interface NamedTable {
  readonly table: ReferenceTable;
  readonly alias: string | undefined;
}

const noAlias =
  /^(?:where|group|order|limit|left|inner|array|join|on|using|having|settings|format|union|prewhere|final)$/i;

function tablesIn(code: string, tables: readonly ReferenceTable[]): NamedTable[] {
  return [...code.matchAll(/\b(?:from|join)\s+(?:\w+\.)?(\w+)(?:\s+(?:as\s+)?(\w+))?/gi)].flatMap(([, name, alias]) => {
    const table = tables.find((one) => one.name === name);
    if (table === undefined) return [];
    return [{ table, alias: alias === undefined || noAlias.test(alias) ? undefined : alias }];
  });
}

function tableCompletion({ name, about }: ReferenceTable): Completion {
  return { kind: 'table', name, detail: about, insert: name };
}

/** Those of the tables in the query; of all tables while it names none. After `u.`, those of this table. */
function columnCompletions(
  begun: string,
  named: readonly NamedTable[],
  tables: readonly ReferenceTable[],
): Completion[] {
  const qualifier = begun.includes('.') ? begun.slice(0, begun.indexOf('.')) : undefined;
  const qualified = named.filter(({ table, alias }) => qualifier !== undefined && (alias ?? table.name) === qualifier);
  const from = named.length > 0 ? named.map(({ table }) => table) : tables;
  const plain = distinct(from.flatMap(({ columns }) => columns)).map((column) => columnCompletion(column, ''));
  const ofTable = qualified.flatMap(({ table }) =>
    table.columns.map((column) => columnCompletion(column, `${qualifier}.`)),
  );
  return [...ofTable, ...plain];
}

function columnCompletion({ name, type }: ReferenceColumn, prefix: string): Completion {
  const written = /^\w+$/.test(name) ? name : `\`${name}\``;
  return { kind: 'column', name: prefix + name, detail: type, insert: prefix + written };
}

function distinct(columns: readonly ReferenceColumn[]): ReferenceColumn[] {
  return [...new Map(columns.map((column) => [column.name, column])).values()];
}

function otherCompletions(begun: string, { tables, functions }: SqlReference): Completion[] {
  if (begun.includes('.')) return [];
  return [
    ...functions.map((name): Completion => ({ kind: 'function', name, detail: 'function', insert: `${name}(` })),
    ...words.map((name): Completion => ({ kind: 'word', name, detail: 'SQL', insert: name })),
    ...tables.map(tableCompletion),
  ];
}

/** Names that begin with the word, then names that contain it; the shorter ones first, columns before functions. */
function ranked(found: readonly Completion[], begun: string): Completion[] {
  const wanted = begun.toLowerCase();
  const order = { column: 0, table: 1, word: 2, function: 3 } as const;
  const places = found.flatMap((completion) => {
    const at = completion.name.toLowerCase().indexOf(wanted);
    if (at === -1 || (at > 0 && wanted.length < 3) || completion.name === begun) return [];
    return [{ completion, rank: (at === 0 ? 0 : 10) + order[completion.kind] }];
  });
  return places
    .sort((one, other) => one.rank - other.rank || byLength(one.completion, other.completion, wanted))
    .map(({ completion }) => completion);
}

/** While no name is begun, the order of the reference stays. */
function byLength(one: Completion, other: Completion, wanted: string): number {
  return wanted === '' || wanted.endsWith('.') ? 0 : one.name.length - other.name.length;
}
