/** Returns memory of the last load to the system. */

const EVERY_MS = 10_000;
/** Share of the time in which the event loop was busy. */
const IDLE = 0.02;
/** Memory that V8 holds and does not use. */
const WORTH_BYTES = 12 * 1024 * 1024;

/**
 * While a process is idle, V8 collects nothing, so it keeps what its start or the last load needed: 32 MB for new objects
 * alone. Once it was idle for ten seconds this collects all garbage, which takes about a tenth of a second and is not
 * repeated before there is as much again. Only where Node runs with `--expose-gc`, as `npm start` has it.
 */
export function releaseMemoryWhenIdle(): void {
  const { gc } = globalThis;
  if (gc === undefined) return;
  let before = performance.eventLoopUtilization();
  setInterval(() => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    if (utilization > IDLE) return;
    const { heapTotal, heapUsed } = process.memoryUsage();
    // Of the flavours only this one makes the space of new objects smaller.
    if (heapTotal - heapUsed > WORTH_BYTES) gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  }, EVERY_MS).unref();
}
