/** The first commands of a new user. Downloads every dependency, so it runs only with CHANCERY_FRESH_CLONE=1. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type GatewayProcess, killAll, startProcess } from '../e2e/gateway-process.ts';

const root = dirname(dirname(import.meta.dirname));
const requested = process.env['CHANCERY_FRESH_CLONE'] === '1';
const aMinute = 60_000;

describe.skipIf(!requested)('a fresh clone (CHANCERY_FRESH_CLONE=1)', () => {
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
  afterAll(() => {
    killAll();
    rmSync(clone, { recursive: true, force: true, maxRetries: 5 });
  });

  /** The PATH without this project's own Node. */
  const PATH = (process.env['PATH'] ?? '')
    .split(':')
    .filter((folder) => !folder.startsWith(join(root, 'node_modules')))
    .join(':');

  /** Runs npm as a user would: without the environment of this test run. */
  function npm(args: readonly string[], env: Record<string, string> = {}): string {
    const inherited = Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_|VITEST|INIT_CWD)/.test(name));
    return execFileSync('npm', [...args], {
      cwd: clone,
      env: { ...Object.fromEntries(inherited), PATH, ...env },
      encoding: 'utf8',
      stdio: 'pipe',
    });
  }

  function npmStart(dataDir: string): GatewayProcess {
    const env = {
      PATH,
      DATA_DIR: join(clone, dataDir),
      NODE_COMPILE_CACHE: join(clone, 'node_modules/.cache/node-compile'),
    };
    return startProcess({ command: ['npm', 'start', '--'], cwd: clone, env, group: true });
  }

  async function health(gateway: GatewayProcess): Promise<number> {
    return (await fetch(`${await gateway.listening}/health`)).status;
  }

  test.each([
    ['as npm is', {}],
    ['with install scripts forbidden', { npm_config_ignore_scripts: 'true' }],
  ])('one command installs and runs it, %s', { timeout: 10 * aMinute }, (_, env) => {
    rmSync(join(clone, 'node_modules'), { recursive: true, force: true, maxRetries: 5 });
    expect(npm(['run', '--silent', 'chancery', '--', 'config', 'print', '--data-dir', 'x'], env)).toContain(
      'data_dir: x',
    );
    expect(npm(['run', '--silent', 'chancery', '--', '--version'], env)).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  test('npm start installs for production; npm test adds the rest beside it', { timeout: 10 * aMinute }, async () => {
    rmSync(join(clone, 'node_modules'), { recursive: true, force: true, maxRetries: 5 });
    const hasRunner = () => existsSync(join(clone, 'node_modules/vitest'));
    const lockfile = () => readFileSync(join(clone, 'package-lock.json'), 'utf8');
    const before = lockfile();

    const first = npmStart('first');
    expect(await health(first)).toBe(200);
    expect(first.stderr).toContain('"npm ci --omit=dev"');
    expect(hasRunner()).toBe(false);
    const dashboard = `${await first.listening}/admin/dashboard`;
    await expect.poll(() => first.stdout).toContain(dashboard);
    expect((await fetch(dashboard)).status).toBe(200);

    expect(npm(['test', '--', 'test/bootstrap/lockfile.test.ts'])).toContain('4 passed');
    expect(hasRunner()).toBe(true);
    expect(lockfile()).toBe(before);
    expect(await health(first)).toBe(200);

    const again = npmStart('again');
    expect(await health(again)).toBe(200);
    expect(again.stderr).not.toContain('dependencies');
    expect(hasRunner()).toBe(true);
  });
});
