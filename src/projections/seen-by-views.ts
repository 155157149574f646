/** Finds out whether the log still has the events from which the snapshots of a data folder were built. */

import type { SeenElsewhere } from '../events/embedded/inspect-segments.ts';
import type { MissingPart } from '../events/embedded/log-errors.ts';
import { ReadOnlyLog } from '../events/embedded/read-only-log.ts';
import { formatPosition, parsePosition } from '../events/event.ts';
import { eventWithPosition, logIdOf } from './snapshot-basis.ts';
import { type BoundEvent, boundEvents, checksumOfEvent, viewsFile } from './view-store.ts';

/** What the snapshots of a data folder show about the log that they were built from. */
export interface SeenByViews {
  /** Evidence for the opening of the log. Undefined when the log has everything that they were built from. */
  readonly seen?: SeenElsewhere;
  /** The log has other events than they were built from. */
  readonly otherBranch?: MissingPart;
}

/**
 * Compares the log in that folder with the events to which the snapshots are bound. Snapshots of a log with another first
 * event are evidence of nothing: they are not used. What cannot be read of the log contradicts none of them. Changes nothing.
 */
export async function seenByViews(dataDir: string, dir: string): Promise<SeenByViews> {
  const views = viewsFile(dataDir);
  const bound = boundEvents(views);
  const [newest] = bound;
  if (newest === undefined) return {};
  const seen = { position: parsePosition(newest.position), by: views };
  const log = await readable(ReadOnlyLog.open(dir));
  if (log === undefined) return { seen };
  try {
    const logId = await readable(logIdOf(log));
    if (logId !== undefined && logId !== newest.logId) return {};
    const head = await log.head();
    let isOther = false;
    let known: BoundEvent | undefined;
    for (const event of bound) {
      if (event.position > head) continue;
      const found = await readable(eventWithPosition(log, event.position).then((one) => ({ one })));
      if (found === undefined) continue;
      if (found.one?.id === event.id && checksumOfEvent(found.one) === event.crc32) {
        known = event;
        break;
      }
      isOther = true;
    }
    if (!isOther) return newest.position > head ? { seen } : {};
    const first = known === undefined ? 2 : parsePosition(known.position) + 1;
    const range = `positions ${formatPosition(first)} to ${newest.position}`;
    const reason = `${range} are missing: the log has other events there`;
    return { otherBranch: { files: [`${views} was built from them`], reason } };
  } finally {
    await log.close();
  }
}

/** Undefined when it cannot be read: the opening for writing reports that. */
function readable<Value>(reading: Promise<Value>): Promise<Value | undefined> {
  return reading.catch(() => undefined);
}
