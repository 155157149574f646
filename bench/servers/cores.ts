/**
 * Which processors the servers under test have, with all their threads and children, and which the load generator and
 * the upstream have. Nothing is pinned on a machine with a single processor or without `taskset` (util-linux).
 */
import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';

export interface Cores {
  /** Lists as `taskset -c` takes them; undefined where nothing is pinned. */
  readonly server: string | undefined;
  readonly rest: string | undefined;
}

export const cores: Cores = choose();

function choose(): Cores {
  const count = cpus().length;
  if (count < 2 || !hasTaskset()) return { server: undefined, rest: undefined };
  return { server: '0', rest: count === 2 ? '1' : `1-${count - 1}` };
}

function hasTaskset(): boolean {
  try {
    execFileSync('taskset', ['-V'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Keeps this process, and the processes that it starts by default, off the server's processor. */
export function pinSelf(): void {
  if (cores.rest !== undefined) {
    execFileSync('taskset', ['-a', '-c', '-p', cores.rest, String(process.pid)], { stdio: 'ignore' });
  }
}
