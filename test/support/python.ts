/**
 * Python packages for tests: pinned, in a virtual environment below `.python/`, made once for each state of the list.
 * `npm run python` makes it; tests that need it name the command when it is missing.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { withLock } from '../../scripts/install-lock.mjs';

const root = dirname(dirname(import.meta.dirname));
/** Where the Python programs of tests are, with the list of their packages. */
export const pythonPrograms = join(root, 'test', 'clients', 'python');
const requirements = join(pythonPrograms, 'requirements.txt');
const environments = join(root, '.python');
/** The packages are pinned for this version and newer ones. */
const oldestPython = [3, 11] as const;

/** An interpreter that has the packages, or the reason why there is none. */
export type PythonForTests = { readonly interpreter: string } | { readonly missing: string };

/** The interpreter that exists now: makes nothing. */
export function pythonForTests(): PythonForTests {
  const folder = environmentFolder();
  const interpreter = interpreterOf(folder);
  if (existsSync(markerOf(folder)) && versionOf(interpreter) !== undefined) return { interpreter };
  const unusable = unusableSystemPython();
  return { missing: unusable ?? 'the packages of Python clients are not installed; "npm run python" does that' };
}

/** Makes the environment unless it is there. Any number of processes may call it at once: one makes it, the others wait. */
export async function preparePython(say: (line: string) => void): Promise<PythonForTests> {
  const unusable = unusableSystemPython();
  if (unusable !== undefined) return { missing: unusable };
  mkdirSync(environments, { recursive: true });
  return withLock(join(environments, 'lock'), say, async () => {
    const already = pythonForTests();
    return 'interpreter' in already ? already : makeEnvironment(say);
  });
}

async function makeEnvironment(say: (line: string) => void): Promise<PythonForTests> {
  const folder = environmentFolder();
  // Those of earlier lists, and one that was not finished.
  for (const name of readdirSync(environments)) {
    if (name !== 'lock') rmSync(join(environments, name), { recursive: true, force: true, maxRetries: 5 });
  }
  say(`installing the packages of ${requirements} (only needed once for each state of that file)`);
  const python = interpreterOf(folder);
  const pip = [python, '-m', 'pip', '--disable-pip-version-check', '--no-input'];
  const commands = [
    ['python3', '-m', 'venv', folder],
    // Only packages of the list, and none that would be built here: the list is complete, as `pip check` shows.
    // Most modules are never imported: those that are get compiled then.
    [
      ...pip,
      'install',
      '--quiet',
      '--no-deps',
      '--only-binary',
      ':all:',
      '--no-compile',
      '--requirement',
      requirements,
    ],
    [...pip, 'check'],
  ];
  for (const command of commands) {
    const { code, output } = await outputOf(command);
    if (code !== 0) return { missing: `the packages of Python clients could not be installed:\n${output.trim()}` };
  }
  writeFileSync(markerOf(folder), '');
  return { interpreter: python };
}

function environmentFolder(): string {
  return join(environments, createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16));
}

/** Written when everything is installed. */
function markerOf(folder: string): string {
  return join(folder, 'installed');
}

function interpreterOf(folder: string): string {
  return join(folder, 'bin', 'python');
}

/** The reason why the machine's own Python cannot be used; undefined when it can. */
function unusableSystemPython(): string | undefined {
  const version = versionOf('python3');
  const wanted = oldestPython.join('.');
  if (version === undefined) return `there is no Python (python3 ${wanted} or newer)`;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const usable = major > oldestPython[0] || (major === oldestPython[0] && minor >= oldestPython[1]);
  return usable ? undefined : `python3 is ${version}; ${wanted} or newer is needed`;
}

function versionOf(interpreter: string): string | undefined {
  const { status, stdout } = spawnSync(interpreter, ['--version'], { encoding: 'utf8' });
  return status === 0 ? /^Python (\d+\.\d+\.\d+)/.exec(stdout)?.[1] : undefined;
}

function outputOf([command = '', ...args]: readonly string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((done) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const keep = (piece: Buffer) => {
      output += piece.toString();
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => done({ code: 1, output: error.message }));
    child.on('close', (code) => done({ code, output }));
  });
}
