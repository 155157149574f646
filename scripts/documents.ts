/**
 * What holds for the documents, beside those that are generated: their links lead to files and headings that exist, and each
 * guarantee names tests that exist and are not skipped.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const LINK = /\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g;

/** One line for each violation in the Markdown files below `root`. */
export function documentViolations(root: string): readonly string[] {
  const files = globSync(['*.md', '{bench,dashboard,docs,infra,test}/**/*.md'], {
    cwd: root,
    exclude: ['**/node_modules/**'],
  });
  return [...files.sort().flatMap((file) => brokenLinks(root, file)), ...guaranteeViolations(root)];
}

const GUARANTEES = 'docs/guarantees.md';
const MOST_WORDS = 30;
/** Without a condition: at the begin of a line of a `describe` or a file, as conditional ones are in an `if` or use `skipIf`. */
const SKIPPED = /^ *(?:it|test|describe)(?:\.\w+)*\.(?:skip|todo|only|fails)\b/m;

/** One line for each row without a test, cell with too many words, missing test file, or skipped test in a named file. */
function guaranteeViolations(root: string): readonly string[] {
  if (!existsSync(join(root, GUARANTEES))) return [];
  const rows = readFileSync(join(root, GUARANTEES), 'utf8').matchAll(/^\| \*\*(\d+)\*\* (.+) \| (.*) \| (.*) \|$/gm);
  return [...rows].flatMap(([, number = '', ...cells]) => {
    const place = `${GUARANTEES}: ${number}`;
    const long = cells
      .filter((cell) => wordsIn(cell) > MOST_WORDS)
      .map((cell) => `${place}: ${cell.slice(0, 40)}… is too long`);
    const tests = [...(cells[2] ?? '').matchAll(/`([^`]+)`/g)].map(([, path = '']) => path);
    if (tests.length === 0) return [...long, `${place} names no test`];
    return [...long, ...tests.flatMap((path) => wrongTest(root, path).map((wrong) => `${place}: ${wrong}`))];
  });
}

function wrongTest(root: string, path: string): readonly string[] {
  const files = path.endsWith('/') ? globSync(`${path}**/*.test.ts`, { cwd: root }) : [path];
  if (files.length === 0 || !files.every((file) => existsSync(join(root, file)))) return [`no test ${path}`];
  return files
    .filter((file) => SKIPPED.test(readFileSync(join(root, file), 'utf8')))
    .map((file) => `${file} skips a test`);
}

/** Without the addresses of links. */
const wordsIn = (cell: string) => (cell.replace(/\]\([^)]*\)/g, ']').match(/\S*\w\S*/g) ?? []).length;

/** @param file relative to the root */
function brokenLinks(root: string, file: string): readonly string[] {
  const text = withoutCode(readFileSync(join(root, file), 'utf8'));
  return [...text.matchAll(LINK)].flatMap(([, link, source]) => {
    const [path = '', anchor] = (link ?? source ?? '').split('#');
    if (/^[a-z]+:/i.test(path)) return [];
    const target = path === '' ? file : relative(root, join(root, dirname(file), path));
    if (!existsSync(join(root, target))) return [`${file}: no file ${path}`];
    if (anchor === undefined || !target.endsWith('.md')) return [];
    return anchors(readFileSync(join(root, target), 'utf8')).has(anchor)
      ? []
      : [`${file}: no heading ${path}#${anchor}`];
  });
}

/** As GitHub makes them: lower case, spaces as hyphens, no punctuation; a repeated heading gets a number. */
function anchors(text: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const [, heading = ''] of text.replace(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)) {
    const plain = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .trim();
    const anchor = plain.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/ /g, '-');
    let n = 0;
    while (found.has(n === 0 ? anchor : `${anchor}-${n}`)) n += 1;
    found.add(n === 0 ? anchor : `${anchor}-${n}`);
  }
  return found;
}

const withoutCode = (text: string) => text.replace(/^```.*?^```$/gms, '').replace(/`[^`\n]*`/g, '');
