/** Waits until a server has finished deferred work: sealing, compression, indexes, analytics. */
import { setTimeout as delay } from 'node:timers/promises';
import { processorMs } from './process-stat.ts';

const WINDOW_MS = 150;
/** Consecutive windows in which the processes are almost idle. */
const WINDOWS = 2;
/** Share of a processor in a window. A gateway's timers use far less. */
const SHARE = 0.08;

/** @returns whether all are idle now; false after `timeoutMs` (default 30 s) of waiting */
export async function becomeIdle(pids: readonly number[], timeoutMs = 30_000): Promise<boolean> {
  const spent = () => pids.reduce((sum, pid) => sum + processorMs(pid), 0);
  const deadline = performance.now() + timeoutMs;
  for (let quiet = 0, before = spent(); performance.now() < deadline; ) {
    await delay(WINDOW_MS);
    const now = spent();
    quiet = now - before <= WINDOW_MS * SHARE ? quiet + 1 : 0;
    if (quiet >= WINDOWS) return true;
    before = now;
  }
  return false;
}
