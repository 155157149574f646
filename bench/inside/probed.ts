/** Servers with the probe in them, and its results for one load. */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Server } from '../servers/launch.ts';

export type ProbeKind = 'garbage' | 'profile';

export interface Probing {
  readonly nodeFlags: readonly string[];
  /** Of the server with this name. */
  env(name: string): Readonly<Record<string, string>>;
}

const TIMEOUT_MS = 30_000;

const fileOf = (workDir: string, name: string) =>
  join(workDir, `probe-${process.pid}-${name.replaceAll('/', '_')}.json`);

export function probing(kind: ProbeKind, workDir: string): Probing {
  return {
    nodeFlags: [`--import=${fileURLToPath(new URL('probe.ts', import.meta.url))}`],
    env: (name) => ({ BENCH_PROBE: kind, BENCH_PROBE_FILE: fileOf(workDir, name) }),
  };
}

/** @returns the result of the probe in the server for `work`, which begins when the probe has begun */
export async function whileProbed<T>(
  server: Server,
  name: string,
  workDir: string,
  work: () => Promise<T>,
): Promise<{ readonly seen: unknown; readonly result: T }> {
  const file = fileOf(workDir, name);
  rmSync(file, { force: true });
  process.kill(server.pid, 'SIGUSR2');
  const result = await work();
  process.kill(server.pid, 'SIGUSR2');
  const deadline = performance.now() + TIMEOUT_MS;
  while (!existsSync(file)) {
    if (server.end() !== undefined) throw new Error(`${name} ended by ${server.end()} while it was probed`);
    if (performance.now() > deadline) throw new Error(`the probe in ${name} wrote nothing`);
    await delay(20);
  }
  const seen: unknown = JSON.parse(readFileSync(file, 'utf8'));
  rmSync(file);
  return { seen, result };
}
