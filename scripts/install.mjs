/**
 * Ensures that the project's dependencies, and with them its own Node (the npm package `node`), are installed.
 * A marker file in node_modules records the hash of the installed package-lock.json, and which Node to run. Nothing is
 * installed while the marker matches.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve, sep } from 'node:path';
import { withLock } from './install-lock.mjs';

/** The oldest Node that runs TypeScript without a build step and has every API that the gateway uses. */
const oldestUsableNode = 24;
const nodeOfProject = join('node_modules', 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** The message is printed on the terminal: it states what failed, and what to do. */
export class InstallFailed extends Error {}

/**
 * The path of the Node to run, or undefined when something must be installed first.
 * @param root the project's folder
 * @param file the file about to be run; one in node_modules must be there
 */
export function installedNode(root, file) {
  const marker = readJson(markerPath(root));
  if (marker === undefined || marker.lock !== lockHash(root)) return undefined;
  return lacksTool(root, file) ? undefined : resolve(root, marker.node);
}

/** An install for production has no test runner and no compiler. */
function lacksTool(root, file) {
  return file.startsWith(join(root, 'node_modules') + sep) && !existsSync(file);
}

/** Makes the next run check the installation again. */
export function forgetInstallation(root) {
  rmSync(markerPath(root), { force: true });
}

/**
 * Installs what is missing and returns the path of the Node to run. Any number of processes may call it at once:
 * one installs, the others wait for it.
 * @throws InstallFailed
 */
export async function install(root, file) {
  return withLock(join(root, '.install.lock'), say, async () => {
    const already = installedNode(root, file);
    if (already !== undefined && nodeRuns(already)) return already;
    const complete = already === undefined && npmHasInstalled(root) && !lacksTool(root, file);
    if (!complete) await installDependencies(root);
    const node = await usableNode(root);
    mkdirSync(join(root, 'node_modules'), { recursive: true });
    writeFileSync(markerPath(root), `${JSON.stringify({ lock: lockHash(root), node })}\n`);
    return resolve(root, node);
  });
}

/** Whether `npm ci` or `npm install` ran here after the last change of package-lock.json. */
function npmHasInstalled(root) {
  const wanted = readJson(join(root, 'package-lock.json'))?.packages;
  const present = readJson(join(root, 'node_modules', '.package-lock.json'))?.packages;
  if (wanted === undefined || present === undefined) return false;
  return Object.entries(wanted).every(
    ([path, entry]) =>
      path === '' ||
      entry.dev === true ||
      entry.optional === true ||
      entry.devOptional === true ||
      (present[path]?.version === entry.version && present[path]?.integrity === entry.integrity),
  );
}

async function installDependencies(root) {
  const verb = existsSync(join(root, 'package-lock.json')) ? 'ci' : 'install';
  say(`installing dependencies with "npm ${verb}" (only needed once; this may take a minute)`);
  let outcome = await npm(root, verb);
  if (verb === 'ci' && outcome.output.includes('EUSAGE')) {
    say('package-lock.json does not agree with package.json; installing with "npm install" instead');
    outcome = await npm(root, 'install', '--no-save');
  }
  if (outcome.code === 0) return;
  throw new InstallFailed(
    `"npm ${verb}" failed in ${root}:\n${outcome.output.trimEnd()}\nRun "npm ${verb}" there by hand to see it in full.`,
  );
}

/** The Node to run, relative to `root` when it is the project's own. */
async function usableNode(root) {
  if (nodeRuns(join(root, nodeOfProject))) return nodeOfProject;
  // npm did not run install scripts (`ignore-scripts`), and the `node` package fetches its binary in one.
  let output = '';
  if (existsSync(join(root, 'node_modules', 'node', 'installArchSpecificPackage.js'))) {
    say("fetching the project's Node (npm did not run its install script)");
    const folder = join(root, 'node_modules', 'node');
    ({ output } = await run(process.execPath, ['installArchSpecificPackage'], folder));
    if (nodeRuns(join(root, nodeOfProject))) return nodeOfProject;
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

function majorOf(version) {
  return Number.parseInt(version, 10);
}

/** Runs the npm that started this process, else the one on the PATH. */
function npm(root, ...words) {
  const args = [...words, '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
  const ours = process.env.npm_execpath;
  const isNpm = ours !== undefined && /^npm(-cli)?\.[cm]?js$/.test(basename(ours)) && existsSync(ours);
  return isNpm ? run(process.execPath, [ours, ...args], root) : run('npm', args, root);
}

/** Runs a command to its end, also when this process gets a signal, and collects its output. */
function run(command, args, cwd) {
  return new Promise((done) => {
    const child = spawn(command, args, {
      cwd,
      env: environmentFor(cwd),
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: process.platform === 'win32' && command === 'npm',
    });
    const output = [];
    const stop = (signal) => child.kill(signal);
    process.on('SIGINT', stop).on('SIGTERM', stop).on('SIGHUP', stop);
    child.stdout.on('data', (piece) => output.push(piece));
    child.stderr.on('data', (piece) => output.push(piece));
    const end = (code, more) => {
      process.off('SIGINT', stop).off('SIGTERM', stop).off('SIGHUP', stop);
      done({ code, output: Buffer.concat(output).toString() + more });
    };
    child.on('error', (error) => end(1, `${command} could not be started: ${error.message}`));
    child.on('close', (code, signal) => end(code, signal === null ? '' : `stopped by ${signal}`));
  });
}

/** The environment without the variables of an outer `npm run`, which describe another package. */
function environmentFor(cwd) {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^npm_(package|lifecycle|command|config_local_prefix)/.test(name) && name !== 'INIT_CWD',
  );
  return { ...Object.fromEntries(kept), INIT_CWD: cwd };
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

function say(message) {
  process.stderr.write(`chancery: ${message}\n`);
}
