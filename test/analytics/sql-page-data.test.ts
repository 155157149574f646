import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { questionsOf, sqlPageData } from '../../scripts/sql-page-data.ts';
import { allowedFunctions } from '../../src/http/clickhouse/allowed-functions.ts';

const root = dirname(dirname(import.meta.dirname));
const guide = readFileSync(join(root, 'docs/analytics.md'), 'utf8');

it('the files of the SQL page are generated from the guide, the tables and the functions (npm run docs:analytics)', () => {
  const files = Object.entries(sqlPageData(guide));
  expect(files).toHaveLength(3);
  for (const [path, text] of files) expect(readFileSync(join(root, path), 'utf8'), path).toBe(text);
});

it('every question of the guide is offered, with its text', () => {
  const questions = questionsOf(guide);
  expect(questions).toHaveLength(guide.match(/^```sql$/gm)?.length ?? 0);
  expect(questions[0]).toMatchObject({
    title: 'What does each team cost per week?',
    about: expect.stringMatching(/^Weeks begin on Monday/),
    sql: expect.stringMatching(/^SELECT\n[\s\S]+usd DESC$/),
  });
});

it('every column, also of a view, has a type and a description', () => {
  const [, text = ''] = Object.entries(sqlPageData(guide)).find(([path]) => path.endsWith('tables.json')) ?? [];
  const tables: { name: string; columns: { type: string; about: string }[] }[] = JSON.parse(text);
  expect(tables.map(({ name }) => name)).toContain('attempts');
  for (const { name, columns } of tables) {
    expect(columns.length, name).toBeGreaterThan(5);
    for (const column of columns)
      expect(column, name).toMatchObject({ type: expect.stringMatching(/./), about: expect.stringMatching(/./) });
  }
});

it('every function that readers may call is offered', () => {
  const [, text = ''] = Object.entries(sqlPageData(guide)).find(([path]) => path.endsWith('functions.json')) ?? [];
  const names = JSON.parse(text).functions.split(' ');
  expect(new Set(names.map((name: string) => name.toLowerCase()))).toEqual(allowedFunctions);
});
