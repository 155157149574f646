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

describe('guarantees', () => {
  const row = (promise: string, tests: string) => ({
    'docs/guarantees.md': `| Guarantee | Holds against | Tests |\n|---|---|---|\n| **7** ${promise} | a kill | ${tests} |\n`,
  });
  const run = "if (isWindows) it.skip('that', () => {});\nit.skipIf(isWindows)('this', () => {});\n";

  it('name tests that exist, files or folders', () => {
    const files = { 'test/a.test.ts': run, 'test/b/c.test.ts': run };
    expect(violations({ ...row('It holds.', '`test/a.test.ts`, `test/b/`'), ...files })).toEqual([]);
  });

  it.each([
    ['no test', 'It holds.', '', 'docs/guarantees.md: 7 names no test'],
    ['a missing file', 'It holds.', '`test/b.test.ts`', 'docs/guarantees.md: 7: no test test/b.test.ts'],
    ['a folder without tests', 'It holds.', '`test/b/`', 'docs/guarantees.md: 7: no test test/b/'],
    ['a skipped test', 'It holds.', '`test/s.test.ts`', 'docs/guarantees.md: 7: test/s.test.ts skips a test'],
    [
      'a long cell',
      `${'It '.repeat(30)}holds.`,
      '`test/a.test.ts`',
      `docs/guarantees.md: 7: ${'It '.repeat(14).slice(0, 40)}… is too long`,
    ],
  ])('are refused with %s', (_name, promise, tests, violation) => {
    const files = {
      'test/a.test.ts': run,
      'test/s.test.ts': "describe('x', () => {\n  it.skip('y', () => {});\n});\n",
    };
    expect(violations({ ...row(promise, tests), ...files })).toEqual([violation]);
  });
});
