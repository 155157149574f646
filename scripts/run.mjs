/**
 * `node scripts/run.mjs <file> [args…]`: runs a file of this project with the project's own Node, on any machine that
 * has some Node ≥ 20 and npm. The first run installs the dependencies that the file needs (see install.mjs).
 *
 * When this process already is the project's Node (the usual case under `npm run`, which puts node_modules/.bin first
 * on the PATH) the file runs in this process, without a wrapper. Otherwise the file runs as a child:
 * - SIGINT and SIGTERM are passed on, each once, and SIGHUP each time. A Ctrl-C in a terminal reaches the child directly
 *   as well, so a child must take two equal signals at the same moment as one.
 * - The wrapper outlives the child and ends with the child's exit code or signal.
 * - `src/main.ts serve` gets an IPC channel and `CHANCERY_SUPERVISED=1`: when the wrapper is killed outright, the
 *   gateway stops at the channel's `disconnect`.
 * `src/main.ts` runs as its bundle where there is one (see bundle.mjs); always where the project is an installed package,
 * since Node strips no types there.
 * Under `npm run` the file is stopped when npm's shell is gone (see stop-with-parent.mjs).
 */
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compileCacheOf, prepareBundle } from './bundle.mjs';
import { prepareDashboard } from './dashboard-build.mjs';
import { gatewayEnvironment, gatewayFlags } from './gateway-node.mjs';
import { forgetInstallation, InstallFailed, install, installedNode, isPackage } from './install.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const nodeFlags = [
  // A no-op on the pinned Node; another Node 24 may warn that node:sqlite or type stripping is experimental.
  '--disable-warning=ExperimentalWarning',
  // SIGUSR1 opens no debugger: a process that connects to it could read the keys.
  '--disable-sigusr1',
];

async function main(target, args) {
  if (target === undefined) {
    process.stderr.write('usage: node scripts/run.mjs <file> [args…]\n');
    return process.exit(2);
  }
  const file = resolve(root, target);
  const isMain = file === join(root, 'src', 'main.ts');
  const isGateway = isMain && args[0] === 'serve';
  // A reload of the gateway, which has read nothing yet.
  if (isGateway) process.on('SIGHUP', () => {});
  const node = installedNode(root, file) ?? (await install(root, file));
  const startedByNpm = process.env.npm_lifecycle_event !== undefined;
  if (isGateway && !args.includes('--help')) await prepareDashboard(root, node);
  const bundle = isMain ? await prepareBundle(root, node) : undefined;
  if (isMain && bundle === undefined && isPackage(root)) {
    throw new InstallFailed(
      `the program could not be prepared below ${join(root, 'node_modules')}. Install it with its optional packages, and run ` +
        '"chancery --version" once as a user who may write there.',
    );
  }
  const program = bundle ?? file;
  const flags = isGateway ? [...nodeFlags, ...gatewayFlags] : nodeFlags;
  const compileCache =
    bundle === undefined ? join(root, 'node_modules', '.cache', 'node-compile') : compileCacheOf(bundle);
  const env = { ...(isGateway && gatewayEnvironment), NODE_COMPILE_CACHE: compileCache, ...process.env };
  delete env.CHANCERY_SUPERVISED;

  if (isRunning(node) && process.execve !== undefined && process.platform !== 'win32') {
    const watch = startedByNpm ? [`--import=${new URL('stop-with-parent.mjs', import.meta.url)}`] : [];
    process.execve(node, [node, ...flags, ...watch, program, ...args], env);
  }
  if (startedByNpm) await import('./stop-with-parent.mjs');
  if (isGateway) env.CHANCERY_SUPERVISED = '1';
  runAsChild(node, [...flags, program, ...args], env, isGateway);
}

function isRunning(node) {
  try {
    return realpathSync(process.execPath) === realpathSync(node);
  } catch {
    return false;
  }
}

function runAsChild(node, command, env, supervised) {
  const stdio = supervised ? ['inherit', 'inherit', 'inherit', 'ipc'] : 'inherit';
  const child = spawn(node, command, { env, stdio });

  // The flag is not known to every Node that can run this wrapper.
  process.on('SIGUSR1', () => {});
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    let passedOn = false;
    process.on(signal, () => {
      if (!passedOn) child.kill(signal);
      passedOn = signal !== 'SIGHUP';
    });
  }
  child.on('error', (error) => {
    if (child.pid !== undefined) return;
    forgetInstallation(root);
    process.stderr.write(`chancery: ${node} could not be started: ${error.message}. Run the same command again.\n`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // Only reached where the signal does not end this process: reports the signal as shells do.
    setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000);
  });
}

main(process.argv[2], process.argv.slice(3)).catch((error) => {
  process.stderr.write(`chancery: ${error instanceof InstallFailed ? error.message : error.stack}\n`);
  process.exit(1);
});
