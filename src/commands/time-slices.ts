/** Lets other work run while a long one goes on, so that requests are not delayed. */
import { setImmediate as otherWork } from 'node:timers/promises';

/** Milliseconds. */
const SLICE_MS = 5;

/**
 * @param sliceMs after which other work runs
 * @returns a function to await between pieces of the work: it waits only when the time slice is over
 */
export function timeSlices(sliceMs = SLICE_MS): () => Promise<void> {
  let startedAt = performance.now();
  return async () => {
    if (performance.now() - startedAt < sliceMs) return;
    await otherWork();
    startedAt = performance.now();
  };
}
