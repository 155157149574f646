/** `npm run docs:events` */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { eventsDocument, eventsDocumentPath } from './events-document.ts';

const root = dirname(import.meta.dirname);
const path = join(root, eventsDocumentPath);
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, eventsDocument(root));
console.log(`wrote ${eventsDocumentPath}`);
