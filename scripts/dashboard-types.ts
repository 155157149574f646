/**
 * `npm run dashboard:types` writes the OpenAPI document and its TypeScript types to `dashboard/generated`, which git
 * ignores. `npm run check` writes them too, before it checks the types of the dashboard.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { servedApiDocument } from './api-document.ts';
import { apiTypes } from './api-types.ts';

const folder = join('dashboard', 'generated');

/** @returns the paths of the files, relative to `root`. A file whose content is unchanged keeps its time. */
export async function writeDashboardTypes(root: string): Promise<readonly string[]> {
  const document = await servedApiDocument();
  mkdirSync(join(root, folder), { recursive: true });
  const files = {
    [join(folder, 'openapi.json')]: `${JSON.stringify(document, undefined, 1)}\n`,
    [join(folder, 'api.d.ts')]: apiTypes(document),
  };
  for (const [path, content] of Object.entries(files)) {
    if (readIfThere(join(root, path)) !== content) writeFileSync(join(root, path), content);
  }
  return Object.keys(files);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

if (import.meta.main) {
  for (const path of await writeDashboardTypes(dirname(import.meta.dirname))) console.log(`wrote ${path}`);
}
