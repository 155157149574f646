import { spawnSync } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Project } from './project.ts';

const gateway = 'src/main.ts';
const production = { '': {}, 'node_modules/x': { version: '1.0.0', integrity: 'sha512-x' } };
const development = { 'node_modules/y': { version: '1.0.0', integrity: 'sha512-y', dev: true } };

let project: Project;
beforeEach(() => {
  project = new Project();
  for (const file of ['a.ts', gateway, 'infra/simulated-provider/main.ts']) project.write(file, 'console.log("ran");');
});
afterEach(() => project.remove());

describe('the first run installs the project', () => {
  test('with npm ci, in one line, and the next run does not', async () => {
    project.standInForNpm('console.log("noise"); console.error("more noise"); node();');
    const first = await project.run(['a.ts']);
    expect(first).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(first.stderr).toMatch(/^chancery: installing dependencies with "npm ci".*\n$/);
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    expect(project.npmCalls()).toEqual(['ci --include=dev --no-audit --no-fund --loglevel=error']);
    expect(project.has('.install.lock')).toBe(false);
  });

  test('with npm install where there is no lockfile', async () => {
    spawnSync('rm', [`${project.root}/package-lock.json`]);
    project.standInForNpm('node();');
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(project.npmCalls()[0]).toMatch(/^install /);
  });

  test('and installs again once package-lock.json has changed', async () => {
    project.standInForNpm('node();');
    await project.run(['a.ts']);
    project.write('package-lock.json', '{"packages":{"":{},"node_modules/x":{"version":"1.0.0"}}}');
    await project.run(['a.ts']);
    expect(project.npmCalls()).toHaveLength(2);
  });

  test.each([
    ['npm ci', 'a.ts', { ...production, ...development }],
    ['npm ci', gateway, { ...production, ...development }],
    ['npm ci --omit=dev', gateway, production],
  ])('but not when %s was run there before, and %s needs no more', async (_, file, packages) => {
    project.write('package-lock.json', JSON.stringify({ packages: { ...production, ...development } }));
    project.installNode();
    project.write('node_modules/.package-lock.json', JSON.stringify({ packages }));
    project.standInForNpm('process.exit(1)');
    expect(await project.run([file])).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    expect(project.npmCalls()).toEqual([]);
  });

  test('and again when the installed packages differ from package-lock.json', async () => {
    project.write('package-lock.json', '{"packages":{"":{},"node_modules/x":{"version":"2.0.0"}}}');
    project.installNode();
    project.write('node_modules/.package-lock.json', '{"packages":{"node_modules/x":{"version":"1.0.0"}}}');
    project.standInForNpm('node();');
    await project.run(['a.ts']);
    expect(project.npmCalls()).toHaveLength(1);
  });

  test('and again when a tool is missing that only a full install has', async () => {
    project.installNode();
    project.standInForNpm('fs.writeFileSync("node_modules/tool.mjs", "console.log(`tool`)"); node();');
    await project.run(['a.ts']);
    expect(project.npmCalls()).toEqual([]);
    expect(await project.run(['node_modules/tool.mjs'])).toMatchObject({ code: 0, stdout: 'tool\n' });
    expect(project.npmCalls()).toHaveLength(1);
  });

  test('when npm fails, its output is shown and nothing counts as installed', async () => {
    project.standInForNpm('console.error("E404 no such package"); process.exit(1);');
    const { code, stderr } = await project.run(['a.ts']);
    expect(code).toBe(1);
    expect(stderr).toContain(`"npm ci" failed in ${project.root}:\nE404 no such package\n`);
    project.standInForNpm('node();');
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n' });
  });

  test('a lockfile that npm does not accept stops nothing, and is not rewritten', async () => {
    project.standInForNpm(
      'if (process.argv[2] === "ci") { console.error("npm error code EUSAGE"); process.exit(1); } node();',
    );
    const { code, stdout, stderr } = await project.run(['a.ts']);
    expect([code, stdout]).toEqual([0, 'ran\n']);
    expect(stderr).toContain('package-lock.json does not agree with package.json');
    expect(project.npmCalls()[1]).toMatch(/^install --no-save /);
  });

  test('several first runs at once install once', async () => {
    project.standInForNpm('setTimeout(node, 300);');
    const runs = await Promise.all([project.run(['a.ts']), project.run(['a.ts']), project.run(['a.ts'])]);
    expect(runs.map(({ code, stdout }) => [code, stdout])).toEqual(Array(3).fill([0, 'ran\n']));
    expect(project.npmCalls()).toHaveLength(1);
  });

  test.runIf(process.platform === 'linux').each([
    ['belongs to another process by now', `${process.pid}.1`],
    ['belongs to a process from before the time of starts was noted', String(process.pid)],
  ])('the lock of a process whose id %s is taken over', async (_when, owner) => {
    project.write(`.install.lock/${owner}`, '');
    project.standInForNpm('node();');
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(project.has('.install.lock')).toBe(false);
  });

  test('the lock of a process that died is taken over', async () => {
    const { pid } = spawnSync(process.execPath, ['--eval', '0']);
    project.write(`.install.lock/${pid}`, '');
    project.standInForNpm('node();');
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(project.has('.install.lock')).toBe(false);
  });
});

describe('the dependencies for development', () => {
  const npmOf = `
    const all = ${JSON.stringify({ ...production, ...development })};
    const packages = process.argv.includes('--omit=dev') ? ${JSON.stringify(production)} : all;
    fs.writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages }));
    node();`;
  const ci = (scope: string) => `ci ${scope} --no-audit --no-fund --loglevel=error`;
  const add = 'install --no-save --include=dev --no-audit --no-fund --loglevel=error';
  beforeEach(() => {
    project.write('package-lock.json', JSON.stringify({ packages: { ...production, ...development } }));
    project.standInForNpm(npmOf);
  });

  test.each([gateway, 'infra/simulated-provider/main.ts'])('are not installed to run %s', async (file) => {
    const { code, stdout, stderr } = await project.run([file]);
    expect([code, stdout]).toEqual([0, 'ran\n']);
    expect(stderr).toMatch(/^chancery: installing dependencies with "npm ci --omit=dev".*\n$/);
    expect(project.npmCalls()).toEqual([ci('--omit=dev')]);
  });

  test('are added for any other file, which removes nothing, and stay', async () => {
    await project.run([gateway]);
    const added = await project.run(['a.ts']);
    expect(added).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(added.stderr).toMatch(/^chancery: adding development dependencies with "npm install --no-save".*\n$/);
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    expect(await project.run([gateway])).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    expect(project.npmCalls()).toEqual([ci('--omit=dev'), add]);
  });

  test('are added after "npm ci --omit=dev" was run by hand', async () => {
    project.installNode();
    project.write('node_modules/.package-lock.json', JSON.stringify({ packages: production }));
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(project.npmCalls()).toEqual([add]);
  });

  test('stay when the gateway is the first to start after a change of package-lock.json', async () => {
    await project.run(['a.ts']);
    const changed = { 'node_modules/z': { version: '1.0.0' } };
    project.write('package-lock.json', JSON.stringify({ packages: { ...production, ...development, ...changed } }));
    expect(await project.run([gateway])).toMatchObject({ code: 0, stdout: 'ran\n' });
    expect(project.npmCalls()).toEqual([ci('--include=dev'), ci('--include=dev')]);
  });

  test('when they cannot be added, the gateway still starts, and the next run tries again', async () => {
    await project.run([gateway]);
    project.standInForNpm('console.error("E404 no such package"); process.exit(1);');
    const { code, stderr } = await project.run(['a.ts']);
    expect(code).toBe(1);
    expect(stderr).toContain(`"npm install --no-save" failed in ${project.root}:\nE404 no such package\n`);
    expect(await project.run([gateway])).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
    project.standInForNpm(npmOf);
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n' });
  });

  test('are added once for several runs at once', async () => {
    await project.run([gateway]);
    project.standInForNpm(`setTimeout(() => { ${npmOf} }, 300);`);
    const runs = await Promise.all([project.run(['a.ts']), project.run([gateway]), project.run(['a.ts'])]);
    expect(runs.map(({ code, stdout }) => [code, stdout])).toEqual(Array(3).fill([0, 'ran\n']));
    expect(project.npmCalls()).toEqual([ci('--omit=dev'), add]);
  });
});

describe('where npm may not run install scripts', () => {
  const installer = (work: string) =>
    `fs.writeFileSync("node_modules/node/bin/node", "This file intentionally left blank\\n");
     fs.writeFileSync("node_modules/node/installArchSpecificPackage.js", ${JSON.stringify(work)});
     fs.writeFileSync("node_modules/node/package.json", '{"type":"commonjs"}');`;

  test('the Node package’s own installer is run by hand', async () => {
    const node = `#!/bin/sh\nexec "${process.execPath}" "$@"\n`;
    project.standInForNpm(
      installer(`require("node:fs").writeFileSync("bin/node", ${JSON.stringify(node)}, { mode: 0o755 });
                 require("node:fs").chmodSync("bin/node", 0o755);`),
    );
    const { code, stdout, stderr } = await project.run(['a.ts']);
    expect([code, stdout]).toEqual([0, 'ran\n']);
    expect(stderr).toContain('npm did not run its install script');
  });

  test('else the machine’s own Node is used, if it is new enough', async () => {
    project.standInForNpm(installer('process.exit(1)'));
    const { code, stdout, stderr } = await project.run(['a.ts']);
    expect([code, stdout]).toEqual([0, 'ran\n']);
    expect(stderr).toContain(`using this machine's Node ${process.versions.node}`);
    expect(await project.run(['a.ts'])).toMatchObject({ code: 0, stdout: 'ran\n', stderr: '' });
  });
});
