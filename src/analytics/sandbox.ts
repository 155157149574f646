/**
 * A sandbox around a program, by bubblewrap (`bwrap`), where the system has it and allows namespaces to this user. It
 * contains the program and the system's libraries, the folders named here, an empty `/tmp`, its own process and user
 * namespaces, and no privileges. Other files of the machine, and their names, are not visible.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants, lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

export interface SandboxAccess {
  /** Folders and files that may be read. Those that do not exist are left out. */
  readonly reads: readonly string[];
  /** Folders that may be read and written. They exist. */
  readonly writes: readonly string[];
  /** Whether the machine's network is available. Otherwise the sandbox has only its own loopback interface. */
  readonly network: boolean;
}

/** The command prefix that runs a command in the sandbox. */
export type SandboxCommand = readonly [program: string, ...arguments_: string[]];

const PROBE_MS = 20_000;

/**
 * Tests the sandbox with the program that will run in it.
 * @returns its command, or why there is none
 */
export async function findSandbox(
  view: SandboxAccess,
  program: string,
  searchPath: string | undefined,
): Promise<SandboxCommand | { readonly why: string }> {
  if (process.platform !== 'linux') return { why: `there is no bwrap (bubblewrap) on ${process.platform}.` };
  const bubblewrap = findProgram('bwrap', searchPath);
  if (bubblewrap === undefined) return { why: 'bwrap (bubblewrap) is not installed.' };
  const command: SandboxCommand = [bubblewrap, ...sandboxArguments(view, program)];
  try {
    const [file, ...before] = command;
    await promisify(execFile)(file, [...before, program, '--version'], { timeout: PROBE_MS, env: {} });
    return command;
  } catch (error) {
    return { why: `bwrap (bubblewrap) cannot be used here: ${complaintOf(error)}` };
  }
}

function complaintOf(error: unknown): string {
  const { stderr, message } = Object(error);
  const [line = ''] = String(stderr || message)
    .trim()
    .split('\n');
  return line.endsWith('.') ? line : `${line}.`;
}

function findProgram(name: string, searchPath = ''): string | undefined {
  return searchPath
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** No new session: where the kernel groups processes by session, it would get as much of a processor as all others. */
function sandboxArguments({ reads, writes, network }: SandboxAccess, program: string): string[] {
  const namespaces = ['user', 'ipc', 'pid', 'uts', ...(network ? [] : ['net'])].map((kind) => `--unshare-${kind}`);
  return [
    ...namespaces,
    '--die-with-parent',
    ...['--cap-drop', 'ALL'],
    // First: later folders may lie within them.
    ...['--proc', '/proc', '--tmpfs', '/tmp'],
    ...libraryFolders.flatMap(mountOf),
    ...[...systemFiles, ...(network ? networkFiles : []), program, realpathSync(program), ...reads].flatMap((path) => [
      '--ro-bind-try',
      path,
      path,
    ]),
    // Not the whole of /dev: a program that can open its terminal can type into it.
    ...devices.flatMap((path) => ['--dev-bind', path, path]),
    ...writes.flatMap((path) => ['--bind', path, path]),
    ...['--chdir', writes[0] ?? '/tmp'],
  ];
}

const libraryFolders = ['/usr/lib', '/usr/lib64', '/usr/lib32', '/usr/local/lib', '/lib', '/lib64', '/lib32'];
/** ClickHouse reads the limits of its memory and processors from the last two. */
const systemFiles = [
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/usr/share/zoneinfo',
  '/sys/fs/cgroup',
  '/sys/devices/system/cpu',
];
/** Name resolution and trusted certificates. */
const networkFiles = ['/etc/hosts', '/etc/nsswitch.conf', '/etc/resolv.conf', '/etc/ssl/certs', '/etc/pki/tls/certs'];
const devices = ['/dev/null', '/dev/zero', '/dev/random', '/dev/urandom'];

/** A folder that is a link elsewhere (`/lib` to `usr/lib`) is the same link inside. */
function mountOf(path: string): string[] {
  try {
    if (lstatSync(path).isSymbolicLink()) return ['--symlink', readlinkSync(path), path];
    return ['--ro-bind', path, path];
  } catch {
    return [];
  }
}

/** Folders that a Node program of this project reads. @param root the project's folder */
export function programFiles(root: string): string[] {
  return ['src', 'node_modules', 'package.json'].map((name) => join(root, name));
}

export function projectRoot(): string {
  return join(import.meta.dirname, '..', '..');
}
