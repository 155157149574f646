/** The machine a result was measured on. */
import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  /** Of the folder in which the log is written. */
  readonly fileSystem: string;
  readonly node: string;
  readonly date: string;
  readonly commit: string;
}

export function describeMachine(folder: string): Machine {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: `${type()} ${release()}`,
    fileSystem: fileSystemOf(realpathSync(folder)),
    node: process.version,
    date: new Date().toISOString().slice(0, 16).replace('T', ' '),
    commit: commit(),
  };
}

/** Type and device of the mount with the longest matching path. */
function fileSystemOf(folder: string): string {
  try {
    const mounts = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' '))
      .filter(([, at = '?']) => folder === at || folder.startsWith(at === '/' ? '/' : `${at}/`))
      .sort(([, left = ''], [, right = '']) => right.length - left.length);
    const [device, , kind] = mounts[0] ?? [];
    return kind === undefined ? 'unknown' : `${kind} on ${device}`;
  } catch {
    return 'unknown';
  }
}

function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const changed = git(
      'status',
      '--porcelain',
      '--untracked-files=no',
      '--',
      'src',
      'infra',
      'bench',
      ':!bench/RESULTS.md',
    );
    return `${git('rev-parse', '--short', 'HEAD')}${changed === '' ? '' : ' with changes'}`;
  } catch {
    return 'unknown';
  }
}
