/** Which routes the sources of a page name. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const sources = join(import.meta.dirname, '../../../dashboard/src');
/** It imports every page. */
const listOfPages = join(sources, 'app/pages.ts');

/** Read as text: the list itself needs a browser's types. */
export function pageNames(): string[] {
  const text = readFileSync(listOfPages, 'utf8');
  return [...text.matchAll(/\bname: '(\w+)',\s*title: /g)].map(([, name = '']) => name);
}

/** The folder of a page; `shell` is what is loaded with every page. */
function beginningOf(page: string): string[] {
  if (page === 'shell') return [join(sources, 'main.tsx')];
  return globSync(`pages/${page}/**/*.{ts,tsx}`, { cwd: sources }).map((path) => join(sources, path));
}

/** The files of a page's folder and all that they import, also lazily. */
export function filesOf(page: string): ReadonlySet<string> {
  const found = new Set<string>();
  const waiting = beginningOf(page);
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (found.has(file) || file === listOfPages) continue;
    found.add(file);
    for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+\.tsx?)'/g)) {
      const imported = join(dirname(file), path);
      if (existsSync(imported)) waiting.push(imported);
    }
  }
  return found;
}

/** `sendChange({ method: 'PUT', of: '/admin/…' })`, and a request whose answer is a file; with `json` it is a POST. */
const changes = [
  /method: '(?<method>PUT|POST|DELETE)',\s*of: '(?<path>[^']+)'/g,
  /request\('(?<path>[^']+)', \{\s*(?:method: '(?<method>PUT|POST|DELETE)'|json\b)/g,
];

/** A path of a type is no use of the route. */
const ofTypes = /(?:paths\[|(?:Operation|Answer)<)'[^']+'/g;

/** As `PUT /admin/users`. Every path that is no part of a change is one that is read. */
export function routesIn(text: string): Set<string> {
  const routes = new Set<string>();
  let rest = text.replaceAll(ofTypes, '');
  for (const pattern of changes) {
    for (const { groups } of text.matchAll(pattern)) routes.add(`${groups?.['method'] ?? 'POST'} ${groups?.['path']}`);
    rest = rest.replaceAll(pattern, '');
  }
  for (const [, path] of rest.matchAll(/['`](\/admin\/[^'`?$]+)['`]/g)) routes.add(`GET ${path}`);
  return routes;
}

export function routesOfPage(page: string): ReadonlySet<string> {
  const routes = new Set<string>();
  for (const file of filesOf(page)) for (const route of routesIn(readFileSync(file, 'utf8'))) routes.add(route);
  return routes;
}
