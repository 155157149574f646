/**
 * Keeps the processors of a virtual machine from sleeping while it is measured on. A processor that sleeps is given to
 * other machines, and comes back a millisecond or more after the packet that woke it: on a busy host that was nine tenths
 * of the latency at 1 connection, and half of the processor time. One process for each processor runs an endless loop
 * at the lowest priority (SCHED_IDLE), so that everything else preempts it at once.
 */
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';

export interface Awake {
  /** In the order of the processors. */
  readonly pids: readonly number[];
  stop(): void;
}

/** Undefined where it is not needed, or not possible: no hypervisor, no `chrt` or `taskset` (util-linux). */
export function keepAwake(): Awake | undefined {
  if (!isVirtual() || !hasPrograms()) return undefined;
  const children = cpus().map((_, core) =>
    spawn('taskset', ['-c', String(core), 'chrt', '-i', '0', 'sh', '-c', 'while :; do :; done'], { stdio: 'ignore' }),
  );
  const stop = () => {
    for (const child of children) child.kill('SIGKILL');
  };
  process.once('exit', stop);
  return { pids: children.flatMap(({ pid }) => pid ?? []), stop };
}

function isVirtual(): boolean {
  try {
    return /^flags.*\bhypervisor\b/m.test(readFileSync('/proc/cpuinfo', 'utf8'));
  } catch {
    return false;
  }
}

function hasPrograms(): boolean {
  try {
    execFileSync('taskset', ['-V'], { stdio: 'ignore' });
    execFileSync('chrt', ['-V'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
