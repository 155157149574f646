import { spawn } from 'node:child_process';
import { readFileSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ended, Project } from './project.ts';

const gateway = 'src/main.ts';
const ci =
  'ci --include=dev --ignore-scripts --fetch-retries=1 --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=1000 ' +
  '--fetch-timeout=30000 --no-audit --no-fund --loglevel=error';

/** Builds as Vite does: writes the page and an asset into the folder that `--outDir` names. */
const vite = `
  const fs = require('node:fs');
  const out = process.argv[process.argv.indexOf('--outDir') + 1];
  fs.appendFileSync('../builds', process.env.NODE_ENV + '\\n');
  if (fs.readFileSync('src/main.tsx', 'utf8').includes('syntax error')) {
    console.error('error during build:\\n[plugin oxc] Unexpected token in src/main.tsx\\n    at parse (file.js:1:1)');
    process.exit(1);
  }
  fs.mkdirSync(out + '/assets', { recursive: true });
  fs.writeFileSync(out + '/index.html', '<!doctype html>');
  fs.writeFileSync(out + '/assets/app-1.js', fs.readFileSync('src/main.tsx', 'utf8').repeat(100));`;

/** Installs a stand-in for Vite in the dashboard, and for Node in the project. */
const npm = `
  if (process.cwd().endsWith('dashboard')) {
    fs.mkdirSync('node_modules/vite/bin', { recursive: true });
    fs.writeFileSync('node_modules/vite/bin/package.json', '{"type":"commonjs"}');
    fs.writeFileSync('node_modules/vite/bin/vite.js', ${JSON.stringify(vite)});
    fs.writeFileSync('node_modules/.package-lock.json', '{"packages":{}}');
  } else node();`;

let project: Project;
beforeEach(async () => {
  project = new Project();
  project.write(gateway, 'console.log("the gateway");');
  project.write('a.ts', '');
  project.write('dashboard/package.json', '{"type":"module"}');
  project.write('dashboard/package-lock.json', '{"packages":{"":{}}}');
  project.write('dashboard/src/main.tsx', 'first;');
  project.standInForNpm(npm);
  await project.run(['a.ts']);
});
afterEach(() => project.remove());

const serve = (env?: Record<string, string>) => project.run([gateway, 'serve'], env);
const builds = () => (project.has('builds') ? project.read('builds').trim().split('\n').length : 0);
const built = () => project.read('dashboard/dist/assets/app-1.js');

describe('a start of the gateway', () => {
  it('installs the packages of the dashboard and builds it, once', async () => {
    const first = await serve();
    expect(first).toMatchObject({ code: 0, stdout: 'the gateway\n' });
    expect(first.stderr.split('\n')).toEqual([
      expect.stringMatching(/^chancery: installing the packages of the dashboard with "npm ci"/),
      expect.stringMatching(/^chancery: building the dashboard/),
      '',
    ]);
    expect(project.npmCalls().slice(1)).toEqual([ci]);
    expect(built()).toBe('first;'.repeat(100));
    expect(await serve()).toMatchObject({ code: 0, stdout: 'the gateway\n', stderr: '' });
    expect(builds()).toBe(1);
    expect(project.read('builds')).toBe('production\n');
  });

  it.each([
    ['a source', 'dashboard/src/main.tsx', 'second;'],
    ['a new file', 'dashboard/src/ui/button.tsx', 'export {}'],
    ['the lockfile', 'dashboard/package-lock.json', '{"packages":{"":{"name":"changed"}}}'],
  ])('builds again after a change of %s', async (_, file, content) => {
    await serve();
    project.write(file, content);
    const again = await serve();
    expect(again).toMatchObject({ code: 0, stdout: 'the gateway\n' });
    expect(again.stderr).toMatch(/^chancery: building the dashboard.*\n$/);
    expect(builds()).toBe(2);
    if (file.endsWith('main.tsx')) expect(built()).toBe('second;'.repeat(100));
  });

  it('does not build again after a change of a text, the generated types or the installed packages', async () => {
    await serve();
    for (const file of ['README.md', 'generated/api.d.ts', 'node_modules/preact/index.js', '.cache/x']) {
      project.write(`dashboard/${file}`, 'changed');
    }
    expect(await serve()).toMatchObject({ code: 0, stderr: '' });
    expect(builds()).toBe(1);
  });

  it('installs the packages again when they differ from the lockfile', async () => {
    await serve();
    project.write('dashboard/package-lock.json', '{"packages":{"":{},"node_modules/new":{"version":"1.0.0"}}}');
    await serve();
    expect(project.npmCalls().slice(1)).toEqual([ci, ci]);
  });

  it('builds once for several starts', async () => {
    const starts = await Promise.all([serve(), serve(), serve()]);
    expect(starts.map(({ code, stdout }) => [code, stdout])).toEqual(Array(3).fill([0, 'the gateway\n']));
    expect([builds(), project.npmCalls().slice(1)]).toEqual([1, [ci]]);
    expect(project.has('dashboard/.build.lock')).toBe(false);
  });

  it('writes compressed variants of what becomes smaller', async () => {
    await serve();
    expect(gunzipSync(readFileSync(join(project.root, 'dashboard/dist/assets/app-1.js.gz'))).toString()).toBe(built());
    expect(project.has('dashboard/dist/assets/app-1.js.br')).toBe(true);
    expect(project.has('dashboard/dist/index.html.br')).toBe(false);
    expect(project.has('dashboard/dist.new')).toBe(false);
  });

  it('does not build while the dashboard is off', async () => {
    expect(await serve({ ADMIN_UI_ENABLED: 'off' })).toMatchObject({ code: 0, stderr: '' });
    expect(builds()).toBe(0);
  });

  it('does not build for another command, or without sources', async () => {
    expect(await project.run([gateway, 'config'])).toMatchObject({ code: 0, stderr: '' });
    expect(await project.run([gateway, 'serve', '--help'])).toMatchObject({ code: 0, stderr: '' });
    rmSync(join(project.root, 'dashboard'), { recursive: true });
    expect(await serve()).toMatchObject({ code: 0, stdout: 'the gateway\n', stderr: '' });
    expect(builds()).toBe(0);
  });
});

describe('a dashboard that cannot be built', () => {
  const hint = '"npm run dashboard" shows the whole error.';

  it('does not keep the gateway from starting: one sentence gives the reason', async () => {
    project.standInForNpm(
      `console.error("npm warn old\\nnpm error code ENOTFOUND\\nnpm error request to https://registry failed\\nnpm error A log");
       process.exit(1);`,
    );
    const { code, stdout, stderr } = await serve();
    expect([code, stdout]).toEqual([0, 'the gateway\n']);
    expect(stderr.split('\n').slice(1)).toEqual([
      `chancery: the dashboard could not be built: "npm ci" failed: request to https://registry failed. ${hint}`,
      '',
    ]);
    expect(project.has('dashboard/dist')).toBe(false);
  });

  it('is tried again after an hour, or when its sources have changed, and not at every start', async () => {
    project.write('dashboard/src/main.tsx', 'syntax error');
    expect((await serve()).stderr).toContain(
      `could not be built: the build failed: [plugin oxc] Unexpected token in src/main.tsx. ${hint}\n`,
    );
    expect(await serve()).toMatchObject({ code: 0, stdout: 'the gateway\n', stderr: '' });
    expect(builds()).toBe(1);

    const anHourAgo = Date.now() / 1000 - 3601;
    utimesSync(join(project.root, 'dashboard/.build-failed'), anHourAgo, anHourAgo);
    await serve();
    expect(builds()).toBe(2);

    project.write('dashboard/src/main.tsx', 'mended;');
    await serve();
    expect(built()).toBe('mended;'.repeat(100));
    expect(project.has('dashboard/.build-failed')).toBe(false);
  });

  it('keeps its previous build', async () => {
    await serve();
    project.write('dashboard/src/main.tsx', 'syntax error');
    const { stdout, stderr } = await serve();
    expect(stdout).toBe('the gateway\n');
    expect(stderr).toContain('the dashboard could not be built; its previous build is served: the build failed');
    expect(built()).toBe('first;'.repeat(100));
  });

  it('does not start the gateway when the build was interrupted', async () => {
    project.standInForNpm(
      `${npm} if (process.cwd().endsWith('dashboard')) { fs.writeFileSync('../waits', ''); setInterval(() => {}, 1000); }`,
    );
    const start = project.start([gateway, 'serve']);
    const end = ended(start);
    await expect.poll(() => project.has('waits')).toBe(true);
    start.kill('SIGINT');
    expect(await end).toMatchObject({ code: null, signal: 'SIGINT', stdout: '' });
    expect(project.has('dashboard/.build-failed')).toBe(false);
    // The lock of the ended process is taken over.
    project.standInForNpm(npm);
    await serve();
    expect(builds()).toBe(1);
  });
});

describe('npm run dashboard', () => {
  const run = () =>
    ended(spawn(process.execPath, ['scripts/dashboard.mjs'], { cwd: project.root, env: project.env() }));

  it('builds in any case, and says where the result is', async () => {
    await serve();
    const { code, stderr } = await run();
    expect(code).toBe(0);
    expect(stderr).toContain('the dashboard is in dashboard/dist');
    expect(builds()).toBe(2);
  });

  it('shows the whole error', async () => {
    project.write('dashboard/src/main.tsx', 'syntax error');
    await serve();
    const { code, stderr } = await run();
    expect(code).toBe(1);
    expect(stderr).toContain('[plugin oxc] Unexpected token in src/main.tsx\n    at parse (file.js:1:1)');
    expect(builds()).toBe(2);
  });

  it('needs no installed project, as in a stage of an image', async () => {
    rmSync(join(project.root, 'node_modules'), { recursive: true });
    expect((await run()).code).toBe(0);
    expect(project.has('dashboard/dist/index.html')).toBe(true);
    expect(project.has('node_modules')).toBe(false);
  });
});
