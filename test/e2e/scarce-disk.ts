/** Disks without free space for as long as a test requires it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

export interface ScarceDisk {
  /** The data folder of the gateway that is to run out of space. */
  readonly dataDir: string;
  /** From now on the gateway can write nothing more. */
  fill(pid: number): void;
  /** Frees the space. */
  free(pid: number): void;
  remove(): void;
}

const SIZE = '24m';

/** A file system of its own in memory, filled to the last byte by another file (ENOSPC). Needs root. */
export function tinyFileSystem(path: string): ScarceDisk {
  mkdirSync(path);
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=0700`, 'none', path], { stdio: 'pipe' });
  const filler = join(path, 'filler');
  return {
    dataDir: join(path, 'data'),
    fill() {
      const fd = openSync(filler, 'a');
      // Ever smaller pieces, until not one byte fits.
      for (let size = 1 << 20; size >= 1; size >>= 1) while (fits(fd, size));
      closeSync(fd);
    },
    free: () => rmSync(filler),
    remove: () => execFileSync('umount', ['--lazy', path], { stdio: 'pipe' }),
  };
}

function fits(fd: number, bytes: number): boolean {
  try {
    return writeSync(fd, Buffer.alloc(bytes, 1)) === bytes;
  } catch {
    return false;
  }
}

/** A limit on the size of the files that the gateway's process may write (EFBIG). Needs `prlimit`. */
export function limitedFiles(path: string): ScarceDisk {
  execFileSync('prlimit', ['--version'], { stdio: 'pipe' });
  mkdirSync(path);
  const limit = (pid: number, soft: string) => ['--pid', String(pid), `--fsize=${soft}:unlimited`];
  return {
    dataDir: join(path, 'data'),
    fill: (pid) => void execFileSync('prlimit', limit(pid, '1'), { stdio: 'pipe' }),
    // A process that has ended has nothing to free.
    free: (pid) => void spawnSync('prlimit', limit(pid, 'unlimited')),
    remove: () => {},
  };
}

/** The disk, or the reason why this machine has none. */
export function ifPossible(make: (path: string) => ScarceDisk, path: string): ScarceDisk | string {
  try {
    return make(path);
  } catch (error) {
    return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
  }
}
