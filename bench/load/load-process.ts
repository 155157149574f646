/** The load generator in its own process, one load after the other. */
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Load, LoadResult } from './load.ts';

export interface LoadProcess {
  readonly pid: number;
  run(load: Load): Promise<LoadResult>;
  stop(): void;
}

/** `cores` as `taskset -c` takes them. Default: all. */
export function startLoadProcess(cores?: string): LoadProcess {
  const child = fork(fileURLToPath(new URL('load.ts', import.meta.url)), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  if (cores !== undefined) {
    execFileSync('taskset', ['-a', '-c', '-p', cores, String(child.pid)], { stdio: 'ignore' });
  }
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the load generator ended with code ${code}`);
  });
  ended.catch(() => undefined);
  return {
    pid: child.pid ?? 0,
    async run(load) {
      const answered = once(child, 'message');
      child.send(load);
      const [result] = await Promise.race([answered, ended]);
      return result as LoadResult;
    },
    stop: () => child.disconnect(),
  };
}
