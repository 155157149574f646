/** What holds for the documents, beside those that are generated: their links lead to files and headings that exist. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const LINK = /\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g;

/** One line for each violation in the Markdown files below `root`. */
export function documentViolations(root: string): readonly string[] {
  const files = globSync(['*.md', '{bench,dashboard,docs,infra,test}/**/*.md'], {
    cwd: root,
    exclude: ['**/node_modules/**'],
  });
  return files.sort().flatMap((file) => brokenLinks(root, file));
}

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
