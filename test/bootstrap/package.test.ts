import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

const root = dirname(dirname(import.meta.dirname));
const folder = mkdtempSync(join(tmpdir(), 'chancery-package-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The files of the package that npm would make of this project, once its dashboard is built. */
function packedFiles(): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: root });
  const files = listed.toString().split('\0');
  for (const file of files.filter((name) => /^(\.gitignore|package\.json|(dashboard|scripts)\/.*)$/.test(name))) {
    cpSync(join(root, file), join(folder, file));
  }
  for (const file of ['dist/index.html', 'dist/assets/app-1.js.br', 'generated/api.d.ts', 'node_modules/vite/x.js']) {
    mkdirSync(dirname(join(folder, 'dashboard', file)), { recursive: true });
    writeFileSync(join(folder, 'dashboard', file), '');
  }
  const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
    shell: process.platform === 'win32',
  });
  // npm 11 lists packages, npm 12 has them by name.
  const [first]: readonly { files: readonly { path: string }[] }[] = Object.values(JSON.parse(packed.toString()));
  return first?.files.map(({ path }) => path) ?? [];
}

it('a package of the project contains the built dashboard, and neither its sources nor its packages', () => {
  const files = packedFiles();
  expect(files).toContain('scripts/run.mjs');
  expect(files.filter((file) => file.startsWith('dashboard/')).sort()).toEqual([
    'dashboard/dist/assets/app-1.js.br',
    'dashboard/dist/index.html',
  ]);
});
