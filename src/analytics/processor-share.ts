/**
 * What the analytics process takes of a processor that others want too, by its niceness. On Linux a thread has a
 * niceness of its own and passes it on to the threads that it starts, so it is set for each thread. A process may always
 * take less than it does; to take more again, it would need a privilege.
 */
import { readdirSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

/** `fair`: a quarter of what a busy thread takes. `low`: one or two per cent of it. */
export type Share = 'fair' | 'low';

const niceness: Readonly<Record<Share, number>> = { fair: 5, low: 19 };

/** New threads may be started while the others are looked at. */
const MOST_PASSES = 5;

/** Lowers all threads of this process to the share; those that take less already stay as they are. */
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
