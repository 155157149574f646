import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { documentViolations } from '../../scripts/documents.ts';

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

function violations(files: Readonly<Record<string, string>>): readonly string[] {
  const root = mkdtempSync(join(tmpdir(), 'chancery-documents-'));
  roots.push(root);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return documentViolations(root);
}

describe('links of documents', () => {
  const guide = '# The guide\n\n## `GET /v1`, and more\n\n## Costs\n\n## Costs\n\n```\n# no heading\n```\n';

  it('lead to files and headings', () => {
    const good =
      '[a](docs/guide.md) [b](docs/guide.md#get-v1-and-more) [c](docs/guide.md#costs-1) [d](https://e.org/x#y)';
    expect(violations({ 'README.md': `${good}\n\`[e](nothing.md)\`\n`, 'docs/guide.md': guide })).toEqual([]);
  });

  it.each([
    ['[a](docs/other.md)', 'README.md: no file docs/other.md'],
    ['[a](docs/guide.md#no-heading)', 'README.md: no heading docs/guide.md#no-heading'],
    ['[a](#costs)', 'README.md: no heading #costs'],
    ['<img src="docs/one.webp">', 'README.md: no file docs/one.webp'],
  ])('are refused: %s', (link, violation) => {
    expect(violations({ 'README.md': `${link}\n`, 'docs/guide.md': guide })).toEqual([violation]);
  });
});
