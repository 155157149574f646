/** The disk under the logs: how long its flushes take, and waiting until others leave it alone. Linux only. */
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { median } from '../sections/median.ts';

/** Flushes of all disks so far. */
export interface Flushes {
  readonly count: number;
  readonly ms: number;
}

/** A disk of a virtual machine that others leave alone flushes in less than a tenth of it. */
export const SLOW_FLUSH_MS = 1;

const PROBES = 16;
const BLOCK = new Uint8Array(4096);
const LOOK_MS = 2000;

/** @param stat `/proc/diskstats`; its last two fields are flushes and their milliseconds (kernel's `iostats.rst`) */
export function flushes(stat = readFileSync('/proc/diskstats', 'utf8')): Flushes {
  const sums = { count: 0, ms: 0 };
  for (const line of stat.split('\n')) {
    const [count = 0, ms = 0] = line.trim().split(/\s+/).slice(18).map(Number);
    sums.count += count;
    sums.ms += ms;
  }
  return sums;
}

/** Of one flush in between, in milliseconds; null without any. */
export function flushMs(before: Flushes, after: Flushes): number | null {
  const count = after.count - before.count;
  return count === 0 ? null : (after.ms - before.ms) / count;
}

/** Waits while an append of 4 KiB with a sync takes longer than it should, `patienceMs` in all calls together. */
export class QuietDisk {
  readonly #file: string;
  #patienceMs: number;
  #waitedMs = 0;

  constructor(folder: string, patienceMs: number) {
    this.#file = join(folder, 'disk-probe');
    this.#patienceMs = patienceMs;
  }

  get waitedMs(): number {
    return this.#waitedMs;
  }

  async wait(): Promise<void> {
    while (this.#patienceMs > 0 && this.#syncMs() > SLOW_FLUSH_MS) {
      await delay(LOOK_MS);
      this.#patienceMs -= LOOK_MS;
      this.#waitedMs += LOOK_MS;
    }
  }

  /** The median of some. */
  #syncMs(): number {
    const file = openSync(this.#file, 'w');
    try {
      const times = Array.from({ length: PROBES }, () => {
        const began = performance.now();
        writeSync(file, BLOCK);
        fdatasyncSync(file);
        return performance.now() - began;
      });
      return median(times);
    } finally {
      closeSync(file);
      rmSync(this.#file);
    }
  }
}
