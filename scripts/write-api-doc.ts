/** `npm run docs:api` */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { apiDocumentPath, apiReference, servedApiDocument } from './api-document.ts';

writeFileSync(join(dirname(import.meta.dirname), apiDocumentPath), apiReference(await servedApiDocument()));
console.log(`wrote ${apiDocumentPath}`);
