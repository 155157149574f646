/**
 * Reads the closed segments of an open log once, in the background: read models with snapshots start behind most segments,
 * so that damage there would be found only by the request that needs it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LogCorrupted } from './log-errors.ts';
import type { LogFiles } from './log-files.ts';
import type { ReadableSegment } from './log-reader.ts';
import { walkSegment } from './walk-segment.ts';

/** Milliseconds of rest for each one of work: a twentieth of one processor, and of the disk. */
const restFactor = 19;

/**
 * Resolves when all of them have been read, or the signal is aborted. Of each, the first damage is passed on.
 * @param segments each with the position of its last event
 */
export async function verifyClosed(
  log: LogFiles,
  segments: readonly { readonly segment: ReadableSegment; readonly last: number }[],
  signal: AbortSignal,
  onDamage: (damage: LogCorrupted) => void,
): Promise<void> {
  for (const { segment, last } of segments) {
    try {
      let began = performance.now();
      for await (const _run of walkSegment(log, segment, last)) {
        const worked = performance.now() - began;
        await delay(worked * restFactor, undefined, { signal, ref: false });
        began = performance.now();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof LogCorrupted) onDamage(error);
      // Other errors are the disk's: the next reader of the segment reports them.
    }
  }
}
