/**
 * Ensures that the project's dependencies, and with them its own Node (the npm package `node`), are installed.
 * The gateway and its simulated provider get the production dependencies only; any other file (tests, checks,
 * benchmarks) adds the development dependencies, which stay installed.
 * A marker file in node_modules records the hash of the installed package-lock.json, whether the development
 * dependencies are installed, and which Node to run. Nothing is installed while the marker matches.
 * Where the project is itself an installed package, npm has installed its dependencies, here or beside it.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { withLock } from './install-lock.mjs';
import { npm, run } from './run-npm.mjs';
import { say } from './say.mjs';

/** The oldest Node that runs TypeScript without a build step and has every API that the gateway uses. */
export const oldestUsableNode = 24;
const nodeProgram = join('bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** The message is printed on the terminal: it states what failed, and what to do. */
export class InstallFailed extends Error {}

/**
 * The path of the Node to run, or undefined when something must be installed first.
 * @param root the project's folder
 * @param file the file about to be run; one in node_modules must be there
 */
export function installedNode(root, file) {
  if (isPackage(root)) {
    const node = join(nodeFolder(root), nodeProgram);
    return existsSync(node) ? node : undefined;
  }
  const marker = readJson(markerPath(root));
  if (marker === undefined || marker.lock !== lockHash(root)) return undefined;
  if (needsDevelopment(root, file) && marker.development !== true) return undefined;
  return lacksTool(root, file) ? undefined : resolve(root, marker.node);
}

/** Whether npm has installed the project into another one. */
export function isPackage(root) {
  return root.split(sep).includes('node_modules');
}

/** Of the npm package `node`. */
function nodeFolder(root) {
  try {
    return dirname(createRequire(join(root, 'package.json')).resolve('node/package.json'));
  } catch {
    return join(root, 'node_modules', 'node');
  }
}

/** Only these folders are run in production. */
const productionFolders = ['src', 'infra'];

function needsDevelopment(root, file) {
  return !productionFolders.some((folder) => file.startsWith(join(root, folder) + sep));
}

/** For example after `npm prune --omit=dev`, which keeps the marker. */
function lacksTool(root, file) {
  return file.startsWith(join(root, 'node_modules') + sep) && !existsSync(file);
}

/** Makes the next run check the installation again. */
export function forgetInstallation(root) {
  rmSync(markerPath(root), { force: true });
}

/**
 * Installs what is missing and returns the path of the Node to run. Any number of processes may call it at once:
 * one installs, the others wait for it. Never removes installed development dependencies.
 * @throws InstallFailed
 */
export async function install(root, file) {
  if (isPackage(root)) return resolve(root, await usableNode(root));
  return withLock(join(root, '.install.lock'), say, async () => {
    const already = installedNode(root, file);
    if (already !== undefined && nodeRuns(already)) return already;
    const hasDevelopment = npmHasInstalled(root, true);
    const had = hasDevelopment || readJson(markerPath(root))?.development === true;
    const development = had || needsDevelopment(root, file);
    if (already !== undefined || !npmHasInstalled(root, false)) await installAll(root, development);
    else if (lacksTool(root, file) || (development && !hasDevelopment)) await addDevelopment(root);
    const node = await usableNode(root);
    writeMarker(root, { lock: lockHash(root), development, node });
    return resolve(root, node);
  });
}

/**
 * Whether the packages of `root`/package-lock.json are installed.
 * @param development whether the development ones count
 */
export function npmHasInstalled(root, development) {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages;
  const present = readJson(join(root, 'node_modules', '.package-lock.json'))?.packages;
  if (wanted === undefined || present === undefined) return false;
  return Object.entries(wanted).every(
    ([path, entry]) =>
      path === '' ||
      (entry.dev === true && !development) ||
      entry.optional === true ||
      entry.devOptional === true ||
      (present[path]?.version === entry.version && present[path]?.integrity === entry.integrity),
  );
}

/** Replaces node_modules. */
async function installAll(root, development) {
  const command = withScope(existsSync(join(root, 'package-lock.json')) ? ['ci'] : ['install'], development);
  say(`installing dependencies with "npm ${command.shown}" (only needed once; this may take a minute)`);
  const outcome = await npm(root, command.words);
  if (command.words[0] === 'ci' && outcome.output.includes('EUSAGE')) {
    say('package-lock.json does not agree with package.json; installing with "npm install" instead');
    return succeed(root, withScope(['install', '--no-save'], development));
  }
  check(root, command, outcome);
}

/** Leaves every installed package in place: a gateway that runs from this folder keeps its files. */
function addDevelopment(root) {
  const command = withScope(['install', '--no-save'], true);
  say(`adding development dependencies with "npm ${command.shown}" (only needed once)`);
  return succeed(root, command);
}

/** `shown`: the command for a person, without the options that are npm's defaults. */
function withScope(words, development) {
  const scope = development ? '--include=dev' : '--omit=dev';
  return { words: [...words, scope], shown: (development ? words : [...words, scope]).join(' ') };
}

async function succeed(root, command) {
  check(root, command, await npm(root, command.words));
}

function check(root, { shown }, { code, output }) {
  if (code === 0) return;
  throw new InstallFailed(
    `"npm ${shown}" failed in ${root}:\n${output.trimEnd()}\nRun "npm ${shown}" there by hand to see it in full.`,
  );
}

/** The Node to run, relative to `root` when it is the project's own. */
async function usableNode(root) {
  const folder = nodeFolder(root);
  const node = join(folder, nodeProgram);
  if (nodeRuns(node)) return relative(root, node);
  // npm did not run install scripts (`ignore-scripts`), and the `node` package fetches its binary in one.
  let output = '';
  if (existsSync(join(folder, 'installArchSpecificPackage.js'))) {
    say("fetching the project's Node (npm did not run its install script)");
    ({ output } = await run(process.execPath, ['installArchSpecificPackage'], folder));
    if (nodeRuns(node)) return relative(root, node);
  }
  if (majorOf(process.versions.node) >= oldestUsableNode) {
    say(`the project's own Node could not be installed; using this machine's Node ${process.versions.node}`);
    return process.execPath;
  }
  throw new InstallFailed(
    `the project needs Node ${oldestUsableNode}. Its own copy (npm package "node") could not be installed, and this ` +
      `machine's is ${process.versions.node}.${output === '' ? '' : `\n${output.trimEnd()}`}\n` +
      `Allow install scripts for the npm package "node", or install Node ${oldestUsableNode} or newer, and try again.`,
  );
}

function nodeRuns(node) {
  if (!existsSync(node)) return false;
  const { status, stdout } = spawnSync(node, ['--print', 'process.versions.node'], { encoding: 'utf8' });
  return status === 0 && majorOf(stdout) >= oldestUsableNode;
}

export function majorOf(version) {
  return Number.parseInt(version, 10);
}

/** Replaces the file as a whole: other processes read it without the lock. */
function writeMarker(root, marker) {
  mkdirSync(join(root, 'node_modules'), { recursive: true });
  const path = markerPath(root);
  writeFileSync(`${path}.new`, `${JSON.stringify(marker)}\n`);
  renameSync(`${path}.new`, path);
}

function markerPath(root) {
  return join(root, 'node_modules', '.chancery-installed');
}

function lockHash(root) {
  try {
    return createHash('sha256')
      .update(readFileSync(join(root, 'package-lock.json')))
      .digest('hex');
  } catch {
    return 'no package-lock.json';
  }
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}
