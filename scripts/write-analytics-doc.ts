/** `npm run docs:analytics` */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { analyticsDocument, analyticsDocumentPath } from './analytics-document.ts';

writeFileSync(join(dirname(import.meta.dirname), analyticsDocumentPath), analyticsDocument());
console.log(`wrote ${analyticsDocumentPath}`);
