import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { analyticsDocument, analyticsDocumentPath } from '../../scripts/analytics-document.ts';
import { tableKeys, tables } from '../../src/projections/analytics/tables.ts';
import { views } from '../../src/projections/analytics/writer-fence.ts';

const root = dirname(dirname(import.meta.dirname));

test('docs/analytics-tables.md is generated from the tables (npm run docs:analytics)', () => {
  expect(readFileSync(join(root, analyticsDocumentPath), 'utf8')).toBe(analyticsDocument());
});

test('every table, view and column is in it, with its description', () => {
  const text = analyticsDocument();
  for (const key of tableKeys) {
    expect(text).toContain(`## \`${tables[key].name}\``);
    for (const { name, about } of tables[key].columns) {
      expect(text).toContain(`| \`${name}\` |`);
      expect(about).not.toBe('');
    }
  }
  for (const { name } of views) expect(text).toContain(`## \`${name}\` (view)`);
});
