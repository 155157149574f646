import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync, statSync, symlinkSync, truncateSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Project } from './project.ts';

const rolldown = join(dirname(dirname(import.meta.dirname)), 'node_modules/rolldown');
const cache = 'node_modules/.cache/chancery';

let project: Project;
beforeEach(() => {
  project = new Project();
  project.installNode();
  symlinkSync(rolldown, join(project.root, 'node_modules/rolldown'));
  project.write(
    'src/main.ts',
    `import { word } from './word.ts';
     import { fork } from 'node:child_process';
     import { fileURLToPath } from 'node:url';
     const { later } = await import('./later.ts');
     console.log(word, later as string, import.meta.dirname, process.argv[1]?.endsWith('.mjs'));
     fork(fileURLToPath(new URL('./parts/child.ts', import.meta.url)));`,
  );
  project.write('src/word.ts', "export const word: string = 'first';");
  project.write('src/later.ts', "export const later: string = 'later';");
  project.write('src/parts/child.ts', "console.log('child', process.argv[1]?.endsWith('.mjs') as boolean);");
});
afterEach(() => project.remove());

/** What `src/main.ts` prints, as its bundle or as sources. */
const printed = (word: string, isBundle: boolean) =>
  `${word} later ${project.root}/src ${isBundle}\nchild ${isBundle}\n`;

const start = () => project.run(['src/main.ts']);

function bundles(): string[] {
  return readdirSync(join(project.root, cache)).filter((name) => name !== 'current.json');
}

/** Replaces the bundler by one that runs `after` in the end. */
function replaceBundler(after: string): void {
  rmSync(join(project.root, 'node_modules/rolldown'), { recursive: true });
  project.write('node_modules/rolldown/package.json', '{"type":"module","exports":"./index.js"}');
  project.write(
    'node_modules/rolldown/index.js',
    `import fs from 'node:fs';
     import * as usual from '${pathToFileURL(join(rolldown, 'dist/index.mjs')).href}';
     export async function rolldown(options) {
       const bundle = await usual.rolldown(options);
       return { async generate(options) { const made = await bundle.generate(options); ${after} return made; } };
     }`,
  );
}

describe('the bundle of src/main.ts', () => {
  test('is made at the first start, and contains the programs of its processes', async () => {
    expect(await start()).toMatchObject({ code: 0, stdout: printed('first', true), stderr: '' });
    const [bundle = ''] = bundles();
    const { mtimeMs } = statSync(join(project.root, cache, bundle));
    expect(await start()).toMatchObject({ code: 0, stdout: printed('first', true) });
    expect(bundles()).toEqual([bundle]);
    expect(statSync(join(project.root, cache, bundle)).mtimeMs).toBe(mtimeMs);
  });

  test.each(['is longer', 'has the same size and time'])('a source that %s is picked up', async (how) => {
    await start();
    const path = join(project.root, 'src/word.ts');
    const { atime, mtime } = statSync(path);
    const word = how === 'is longer' ? 'second' : 'other';
    project.write('src/word.ts', `export const word: string = '${word}';`);
    if (word === 'other') utimesSync(path, atime, mtime);
    expect((await start()).stdout).toBe(printed(word, true));
  });

  test('a source that is edited during a build is picked up', async () => {
    replaceBundler(`
      if (!fs.existsSync('edited')) fs.writeFileSync('src/word.ts', "export const word = 'edited';");
      fs.writeFileSync('edited', '');`);
    expect((await start()).stdout).toBe(printed('edited', true));
  });

  test('two first starts at once make one, and both run it', async () => {
    const both = await Promise.all([start(), start()]);
    expect(both.map(({ stdout }) => stdout)).toEqual([printed('first', true), printed('first', true)]);
    expect(bundles()).toHaveLength(1);
  });

  test('after an interrupted build the next start makes it', async () => {
    replaceBundler("for (const pid of [process.ppid, process.pid]) process.kill(pid, 'SIGKILL');");
    expect(await start()).toMatchObject({ signal: 'SIGKILL', stdout: '' });
    expect(bundles()).toEqual(['.lock']);
    replaceBundler('');
    expect((await start()).stdout).toBe(printed('first', true));
    expect(bundles()).toHaveLength(1);
  });

  test.each([0, 20])('a file of which %d bytes are left is made again', async (bytes) => {
    await start();
    const [bundle = ''] = bundles();
    truncateSync(join(project.root, cache, bundle, 'main.mjs'), bytes);
    expect(await start()).toMatchObject({ code: 0, stdout: printed('first', true), stderr: '' });
    expect(bundles()).toEqual([bundle]);
  });

  test('where no folder can be made for it, the sources run', async () => {
    project.write('node_modules/.cache', 'a file');
    expect(await start()).toMatchObject({ code: 0, stdout: printed('first', false), stderr: '' });
  });

  test('from sources with errors there is none, and Node reports the error', async () => {
    await start();
    project.write('src/word.ts', 'export const word = ;');
    expect(await start()).toMatchObject({ code: 1, stderr: expect.stringContaining('src/word.ts') });
  });

  test.skipIf(spawnSync('ps').error)('old ones are removed', async () => {
    for (const word of ['1', '2', '3', '4', '5']) {
      project.write('src/word.ts', `export const word = '${word}';`);
      expect((await start()).stdout).toBe(printed(word, true));
    }
    expect(bundles()).toHaveLength(3);
  });
});
