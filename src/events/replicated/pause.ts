import { setTimeout as elapsed } from 'node:timers/promises';

/** Resolves after the time, or as soon as the signal is aborted. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await elapsed(ms, undefined, signal === undefined ? {} : { signal }).catch((error: unknown) => {
    if (!signal?.aborted) throw error;
  });
}
