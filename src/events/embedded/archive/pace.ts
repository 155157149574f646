/** How background work shares the processor. */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';

/** To be awaited between small pieces of work. @throws the signal's reason when the work is to stop */
export type Pace = () => Promise<void>;

/** Longest wait of other work until this work pauses, when its pieces are small. */
const sliceMs = 1;

/** @param restFactor milliseconds of rest for each millisecond of work; with 0 the work only yields to messages */
export function paceOf(restFactor: number, signal: AbortSignal): Pace {
  let began = performance.now();
  return async () => {
    signal.throwIfAborted();
    const worked = performance.now() - began;
    if (worked < sliceMs) return;
    if (restFactor === 0) await nextTurn();
    else await delay(worked * restFactor);
    signal.throwIfAborted();
    began = performance.now();
  };
}
