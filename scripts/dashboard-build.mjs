/**
 * Builds the dashboard into `dashboard/dist`, with Brotli and gzip variants of its assets. `dashboard/dist/sources` holds
 * the hash of the sources and the lockfile: the build is current while it matches. The types that are generated from the
 * OpenAPI document are no part of it, since types leave no trace in the bundle.
 * Its packages are installed in `dashboard/node_modules` when a build needs them. A packaged gateway has `dist` and no
 * sources: nothing is built there.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { npmHasInstalled } from './install.mjs';
import { withLock } from './install-lock.mjs';
import { npm, run } from './run-npm.mjs';
import { say } from './say.mjs';

const INSTALL_MS = 180_000;
const BUILD_MS = 120_000;
/** After a failure, a start tries the same sources again only after this time. */
const RETRY_MS = 3_600_000;
/** Part of the hash: increase it to build again after a change of this file. */
const FORMAT = 1;
/** One quick retry: a start without a registry waits for a few seconds. */
const retries = ['--fetch-retries=1', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=1000'];
const ciWords = ['ci', '--include=dev', '--ignore-scripts', ...retries, '--fetch-timeout=30000'];
const builderPath = join('node_modules', 'vite', 'bin', 'vite.js');

/** The message is printed on the terminal: it states what failed, and what to do. */
export class BuildFailed extends Error {}

/**
 * Builds the dashboard before a start of the gateway when it is missing or its sources have changed. Bounded in time. A
 * failure is printed, and the gateway starts without the dashboard or with its previous build.
 */
export async function prepareDashboard(root, node) {
  if (/^(false|no|off|0)$/i.test(process.env.ADMIN_UI_ENABLED ?? '')) return;
  const folder = folderIn(root);
  try {
    if (!hasSources(root) || isCurrent(folder) || hasFailed(folder)) return;
    await withLock(lockIn(folder), say, async () => {
      if (!isCurrent(folder) && !hasFailed(folder)) await build(folder, node);
    });
  } catch (error) {
    const then = existsSync(join(folder, 'dist', 'index.html')) ? '; its previous build is served' : '';
    say(
      `the dashboard could not be built${then}: ${reasonIn(error.message)} "npm run dashboard" shows the whole error.`,
    );
  }
}

/**
 * `npm run dashboard`: builds in any case.
 * @throws BuildFailed
 */
export async function buildDashboard(root, node) {
  if (!hasSources(root)) throw new BuildFailed(`${folderIn(root)} has no sources of the dashboard.`);
  const folder = folderIn(root);
  await withLock(lockIn(folder), say, () => build(folder, node));
}

/**
 * Installs the packages of the dashboard when they are missing or differ from its lockfile.
 * @throws BuildFailed
 */
export async function installDashboardPackages(root) {
  const folder = folderIn(root);
  if (npmHasInstalled(folder, true)) return;
  await withLock(lockIn(folder), say, () => installPackages(folder));
}

export function hasSources(root) {
  return existsSync(join(folderIn(root), 'package.json'));
}

/** Whether `dashboard/dist` was built from the present sources. */
export function isDashboardCurrent(root) {
  return isCurrent(folderIn(root));
}

function folderIn(root) {
  return join(root, 'dashboard');
}

function lockIn(folder) {
  return join(folder, '.build.lock');
}

async function build(folder, node) {
  const sources = hashOf(folder);
  try {
    await installPackages(folder);
    say('building the dashboard (only needed after a change of its sources)');
    const building = join(folder, 'dist.new');
    const args = [builderPath, 'build', '--outDir', 'dist.new', '--emptyOutDir', '--logLevel', 'warn'];
    const env = { NODE_ENV: 'production' };
    check('the build', await run(resolve(node), args, folder, { timeoutMs: BUILD_MS, env }));
    await compressFilesIn(join(building, 'assets'));
    writeFileSync(join(building, 'sources'), `${sources}\n`);
    rmSync(join(folder, 'dist'), { recursive: true, force: true });
    renameSync(building, join(folder, 'dist'));
    rmSync(failureIn(folder), { force: true });
  } catch (error) {
    rememberFailure(folder, sources);
    throw error;
  }
}

async function installPackages(folder) {
  if (npmHasInstalled(folder, true)) return;
  say('installing the packages of the dashboard with "npm ci" (only needed for a build)');
  check('"npm ci"', await npm(folder, ciWords, { timeoutMs: INSTALL_MS }));
}

function check(what, { code, output, signal }) {
  // The command was ended, and with it this program: the gateway must not start.
  if (signal !== undefined) process.kill(process.pid, signal);
  if (code !== 0) throw new BuildFailed(`${what} failed:\n${output.trim()}`);
}

/** Beside each file its variants `.br` and `.gz`, unless they are hardly smaller. */
async function compressFilesIn(folder) {
  const variants = [
    ['.br', (plain) => promisify(brotliCompress)(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } })],
    ['.gz', (plain) => promisify(gzip)(plain, { level: 9 })],
  ];
  const compressed = filesIn(folder).flatMap((file) => {
    const plain = readFileSync(file);
    return variants.map(async ([ending, compress]) => {
      const smaller = await compress(plain);
      if (smaller.length < plain.length * 0.9) writeFileSync(`${file}${ending}`, smaller);
    });
  });
  await Promise.all(compressed);
}

function isCurrent(folder) {
  const built = readIfThere(join(folder, 'dist', 'sources'));
  return built !== undefined && built === `${hashOf(folder)}\n`;
}

function hasFailed(folder) {
  const failure = failureIn(folder);
  if (readIfThere(failure) !== `${hashOf(folder)}\n`) return false;
  return Date.now() - statSync(failure).mtimeMs < RETRY_MS;
}

/** Not in a folder that cannot be written: there every start tries, and fails at once. */
function rememberFailure(folder, sources) {
  try {
    writeFileSync(failureIn(folder), `${sources}\n`);
  } catch {
    // The error that is being reported says more.
  }
}

function failureIn(folder) {
  return join(folder, '.build-failed');
}

/** Hash of everything that the bundle is built from. */
function hashOf(folder) {
  const hash = createHash('sha256').update(`${FORMAT}`);
  for (const file of filesIn(folder)) {
    const content = readFileSync(file);
    hash.update(`\0${relative(folder, file).split(sep).join('/')}\0${content.length}\0`).update(content);
  }
  return hash.digest('hex');
}

/** All files, sorted, without what is installed, generated or built, and without texts for readers. */
function filesIn(folder) {
  const without = /^(node_modules|generated|dist|dist\.new|\..*|.*\.md)$/;
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => !without.test(name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? filesIn(path) : [path];
    });
}

/** Lines of npm and Vite that do not state the reason of a failure. */
const notAReason = /^(npm warn|code |errno |syscall |error during build|[✗x] Build failed|$)/i;

/** "npm ci" failed: request to https://registry.example/vite failed. */
function reasonIn(message) {
  const [what, ...output] = message.split('\n').map((line) => line.replace(/^npm error /, '').trim());
  const reason = output.find((line) => !notAReason.test(line))?.slice(0, 200) ?? '';
  return `${what} ${reason}`.trim().replace(/[:.]?$/, '.');
}

function readIfThere(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
