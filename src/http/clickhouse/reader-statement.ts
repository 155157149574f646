/** Statements that readers may execute: they return rows, and change and stop nothing. */
import { isMark, isWord, type Token } from './normal-tokens.ts';
import { NotForReaders } from './not-for-readers.ts';

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
export function checkStatement(tokens: readonly Token[]): void {
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
