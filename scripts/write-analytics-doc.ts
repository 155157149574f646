/** `npm run docs:analytics` */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { analyticsDocument, analyticsDocumentPath } from './analytics-document.ts';
import { sqlPageData } from './sql-page-data.ts';

const root = dirname(import.meta.dirname);
const files = {
  [analyticsDocumentPath]: analyticsDocument(),
  ...sqlPageData(readFileSync(join(root, 'docs/analytics.md'), 'utf8')),
};
for (const [path, text] of Object.entries(files)) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  console.log(`wrote ${path}`);
}
