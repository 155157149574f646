/**
 * The gateway as a bundle: `src/main.ts` and the programs of its other processes and threads, with the packages that they
 * import, in a few JavaScript files, which load in less than half of the time of the sources. `bundle-build.mjs` writes them.
 *
 * `node_modules/.cache/chancery` has a folder for each bundle, named by the hash of what it was made from, and `current.json`,
 * which names one of them, its inputs, and their sizes and times. A bundle is used only while these match, or while the
 * contents have the same hash, and while its own files have their sizes. A folder is written to the disk under another name
 * and renamed, so neither a process nor a power cut leaves a part of one.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from './install-lock.mjs';
import { run } from './run-npm.mjs';
import { say } from './say.mjs';

const BUILD_MS = 60_000;
/** How often a build begins again because a source was edited meanwhile. */
const MAX_BUILDS = 3;
/** Times of files are as exact as the clock of the kernel. */
const CLOCK_MS = 10;
/** Bundles that stay when others are made, besides those that run. */
const KEPT = 3;

/**
 * The program to run for `src/main.ts`: its bundle, which is made when it is missing or a source has changed. Undefined where
 * none can be made: in a folder that cannot be written, or from sources with errors.
 */
export async function prepareBundle(root, node) {
  const current = bundledMain(root);
  if (current !== undefined) return current;
  try {
    mkdirSync(cacheIn(root), { recursive: true });
    return await withLock(join(cacheIn(root), '.lock'), say, async () => {
      if (bundledMain(root) === undefined) await build(root, node);
      return bundledMain(root);
    });
  } catch {
    return undefined;
  }
}

/** The bundle of `src/main.ts`, undefined when it is missing or not up to date. */
export function bundledMain(root) {
  const current = readCurrent(root);
  if (current === undefined || current.root !== root) return undefined;
  const main = join(cacheIn(root), current.hash, 'main.mjs');
  const stats = statsOf(root, current.inputs);
  if (stats === undefined || !hasFiles(join(main, '..'), current.files)) return undefined;
  if (stats === current.stats) return main;
  // For example after the folder was copied.
  if (contentHash(root, current.inputs) !== current.hash) return undefined;
  try {
    writeCurrent(root, { ...current, stats });
  } catch {
    // The next start compares the contents again.
  }
  return main;
}

/** Where Node keeps compiled code of the bundle. @param main of a bundle */
export function compileCacheOf(main) {
  return join(main, '..', 'compiled');
}

async function build(root, node) {
  const folder = join(cacheIn(root), 'new');
  for (let builds = 0; builds < MAX_BUILDS; builds++) {
    rmSync(folder, { recursive: true, force: true });
    const began = Date.now() - CLOCK_MS;
    const program = join(root, 'scripts', 'bundle-build.mjs');
    const { code, signal } = await run(node, [program, folder], root, { timeoutMs: BUILD_MS });
    // The build was ended, and with it this program.
    if (signal !== undefined) process.kill(process.pid, signal);
    if (code !== 0) return;
    const inputs = JSON.parse(readFileSync(join(folder, 'inputs.json'), 'utf8'));
    if (inputs.some((input) => statSync(join(root, input)).ctimeMs >= began)) continue;
    const files = readdirSync(folder).map((name) => [name, statSync(join(folder, name)).size]);
    const current = { root, hash: contentHash(root, inputs), stats: statsOf(root, inputs), inputs, files };
    const place = join(cacheIn(root), current.hash);
    rmSync(place, { recursive: true, force: true });
    renameSync(folder, place);
    writeCurrent(root, current);
    removeOld(root, current.hash);
    return;
  }
}

/** Whether the folder has the files in their sizes. Notes of older versions have none. */
function hasFiles(folder, files) {
  const hasSize = ([name, size]) => statSync(join(folder, name), { throwIfNoEntry: false })?.size === size;
  return files?.every(hasSize) ?? false;
}

/** Sizes and times. The time of a change of the inode cannot be set, unlike that of the content. */
function statsOf(root, inputs) {
  const hash = createHash('sha256');
  for (const input of inputs) {
    const stat = statSync(join(root, input), { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    hash.update(`${stat.size} ${stat.mtimeMs} ${stat.ctimeMs}\n`);
  }
  return hash.digest('hex');
}

/** The bundle has absolute paths, so the folder counts. */
function contentHash(root, inputs) {
  const hash = createHash('sha256').update(root);
  for (const input of inputs) {
    const content = readFileSync(join(root, input));
    hash.update(`\0${input}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex').slice(0, 16);
}

/** A gateway that runs loads further files of its bundle later, and starts processes and threads from it. */
function removeOld(root, current) {
  const bundles = readdirSync(cacheIn(root))
    .filter((name) => /^[0-9a-f]{16}$/.test(name) && name !== current)
    .map((name) => ({ name, path: join(cacheIn(root), name) }))
    .sort((a, b) => statSync(b.path).mtimeMs - statSync(a.path).mtimeMs)
    .slice(KEPT - 1);
  if (bundles.length === 0) return;
  const commands = execFileSync('ps', ['-A', '-ww', '-o', 'args'], { encoding: 'utf8', maxBuffer: 2 ** 28 });
  for (const { name, path } of bundles) if (!commands.includes(name)) rmSync(path, { recursive: true, force: true });
}

function cacheIn(root) {
  return join(root, 'node_modules', '.cache', 'chancery');
}

function readCurrent(root) {
  try {
    return JSON.parse(readFileSync(join(cacheIn(root), 'current.json'), 'utf8'));
  } catch {
    return undefined;
  }
}

/** As a whole: other processes read it. */
function writeCurrent(root, current) {
  const path = join(cacheIn(root), 'current.json');
  writeFileSync(`${path}.${process.pid}`, JSON.stringify(current), { flush: true });
  renameSync(`${path}.${process.pid}`, path);
}
