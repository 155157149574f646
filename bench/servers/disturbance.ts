/** Time of the server's processors that others used: the hypervisor, and other processes. Linux only. */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { cores } from './cores.ts';

const TICKS_PER_SECOND = 100;

/** Time of the server's processors so far, in milliseconds. */
export interface CoreTimes {
  readonly all: number;
  readonly busy: number;
  readonly stolen: number;
}

/** Shares of the time of the server's processors, 0 to 1. */
export interface Disturbance {
  readonly stolen: number;
  /** Other processes, and kernel work that belongs to no process. */
  readonly others: number;
}

export function coreTimes(stat = readFileSync('/proc/stat', 'utf8'), pinned = cores.server): CoreTimes {
  const names = pinned === undefined ? cpus().map((_, index) => `cpu${index}`) : [`cpu${pinned}`];
  const sums = { all: 0, busy: 0, stolen: 0 };
  for (const line of stat.split('\n')) {
    const [name = '', ...fields] = line.split(/\s+/);
    if (!names.includes(name)) continue;
    const [user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0] = fields
      .map(Number)
      .map((ticks) => (ticks * 1000) / TICKS_PER_SECOND);
    const busy = user + nice + system + irq + softirq;
    sums.busy += busy;
    sums.stolen += steal;
    sums.all += busy + idle + wait + steal;
  }
  return sums;
}

/** `ownMs`: processor time in between that is not a disturbance. */
export function disturbance(before: CoreTimes, after: CoreTimes, ownMs: number): Disturbance {
  const all = Math.max(1, after.all - before.all);
  return {
    stolen: (after.stolen - before.stolen) / all,
    others: Math.max(0, after.busy - before.busy - ownMs) / all,
  };
}
