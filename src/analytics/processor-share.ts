/**
 * The share of the analytics process of a busy processor, set by its niceness. On Linux each thread has its own
 * niceness and the threads that it starts inherit it, so it is set for each thread. A process may always lower its
 * share; to raise it again, it would need a privilege.
 */
import { readdirSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

/** `fair`: a quarter of the share of a normal busy thread. `low`: one or two per cent of it. */
export type Share = 'fair' | 'low';

const niceness: Readonly<Record<Share, number>> = { fair: 5, low: 19 };

/** New threads may start while the list is processed. */
const MOST_PASSES = 5;

/** Lowers all threads of this process to the share; threads with a lower share are not changed. */
export function takeShare(share: Share): void {
  for (let pass = 0; pass < MOST_PASSES; pass++) {
    const above = threads().filter((thread) => nicenessOf(thread) < niceness[share]);
    for (const thread of above) lower(thread, niceness[share]);
    if (above.length === 0) return;
  }
}

/** The ids of this process's threads; `[0]`, the whole process, where they cannot be listed. */
function threads(): number[] {
  try {
    return readdirSync('/proc/self/task').map(Number);
  } catch {
    return [0];
  }
}

function nicenessOf(thread: number): number {
  try {
    return getPriority(thread);
  } catch {
    // It has ended.
    return niceness.low;
  }
}

function lower(thread: number, to: number): void {
  try {
    setPriority(thread, to);
  } catch {
    // It has ended.
  }
}
