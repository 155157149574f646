/** The first commands of a new user. Downloads every dependency, so it runs only with CHANCERY_FRESH_CLONE=1. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = dirname(dirname(import.meta.dirname));
const asked = process.env['CHANCERY_FRESH_CLONE'] === '1';
const aMinute = 60_000;

describe.skipIf(!asked)('a fresh clone (CHANCERY_FRESH_CLONE=1)', () => {
  let clone: string;
  beforeAll(() => {
    clone = mkdtempSync(join(tmpdir(), 'chancery-clone-'));
    const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], { cwd: root });
    for (const file of files
      .toString()
      .split('\0')
      .filter((name) => name !== '')) {
      cpSync(join(root, file), join(clone, file));
    }
  });
  afterAll(() => rmSync(clone, { recursive: true, force: true }));

  /** Runs npm as a user would: without the environment of this test run. */
  function npm(args: readonly string[], env: Record<string, string> = {}): string {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_|VITEST|INIT_CWD)/.test(name));
    const path = (process.env['PATH'] ?? '')
      .split(':')
      .filter((folder) => !folder.startsWith(join(root, 'node_modules')));
    return execFileSync('npm', [...args], {
      cwd: clone,
      env: { ...Object.fromEntries(inherited), PATH: path.join(':'), ...env },
      encoding: 'utf8',
    });
  }

  test.each([
    ['as npm is', {}],
    ['with install scripts forbidden', { npm_config_ignore_scripts: 'true' }],
  ])('one command installs and runs it, %s', { timeout: 10 * aMinute }, (_, env) => {
    rmSync(join(clone, 'node_modules'), { recursive: true, force: true });
    expect(npm(['run', '--silent', 'chancery', '--', 'config', 'print', '--data-dir', 'x'], env)).toContain(
      'data_dir: x',
    );
    expect(npm(['run', '--silent', 'chancery', '--', '--version'], env)).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});
