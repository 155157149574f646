/** Returns memory that the start needed to the system. */

const AFTER_MS = 10_000;
/** Share of the time in which the event loop was busy. */
const IDLE = 0.02;

/**
 * While a process is idle, V8 collects nothing, so it keeps what its start needed: 32 MB for new objects alone. When it was
 * idle for the second ten seconds, this collects all garbage once, which takes 0.15 s. Never later: such a collection also
 * drops compiled code, and the exchanges that follow cost a third to a half more until it is made again. Only where Node runs
 * with `--expose-gc`, as `npm start` has it.
 */
export function releaseMemoryAfterStart(): void {
  const { gc } = globalThis;
  if (gc === undefined) return;
  setTimeout(() => {
    const before = performance.eventLoopUtilization();
    setTimeout(() => {
      const { utilization } = performance.eventLoopUtilization(performance.eventLoopUtilization(), before);
      // Of the flavours only this one makes the space of new objects smaller.
      if (utilization <= IDLE) gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    }, AFTER_MS).unref();
  }, AFTER_MS).unref();
}
