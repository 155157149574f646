/** Returns memory of the last load to the system. */

const EVERY_MS = 10_000;
/** Share of the time in which the event loop was busy. */
const IDLE = 0.02;
/** Memory that V8 holds and does not use. */
const WORTH_BYTES = 12 * 1024 * 1024;
/** A gateway with few requests counts as idle too: hardly one of them may meet a collection. */
const REST_MS = 600_000;

/**
 * While a process is idle, V8 collects nothing, so it keeps what its start or the last load needed: 32 MB for new objects
 * alone. Once it was idle for ten seconds this collects all garbage, which takes 0.15 s, at most every ten minutes. Only
 * where Node runs with `--expose-gc`, as `npm start` has it.
 */
export function releaseMemoryWhenIdle(): void {
  const { gc } = globalThis;
  if (gc === undefined) return;
  let before = performance.eventLoopUtilization();
  let restsUntil = 0;
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    if (utilization > IDLE || performance.now() < restsUntil) return;
    const { heapTotal, heapUsed } = process.memoryUsage();
    if (heapTotal - heapUsed <= WORTH_BYTES) return;
    restsUntil = performance.now() + REST_MS;
    // Of the flavours only this one makes the space of new objects smaller.
    gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  }, EVERY_MS).unref();
}
