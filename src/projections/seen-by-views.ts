/** Finds out whether the log still has the events from which the snapshots of a data folder were built. */

import type { SeenElsewhere } from '../events/embedded/inspect-segments.ts';
import type { MissingPart } from '../events/embedded/log-errors.ts';
import { ReadOnlyLog } from '../events/embedded/read-only-log.ts';
import { formatPosition, parsePosition } from '../events/sequence-position.ts';
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
 * event are evidence of nothing: they are not used. Changes nothing; of a log that cannot be read nothing is known.
 */
export async function seenByViews(dataDir: string, dir: string): Promise<SeenByViews> {
  const views = viewsFile(dataDir);
  const bound = boundEvents(views);
  if (bound.length === 0) return {};
  let log: ReadOnlyLog | undefined;
  try {
    log = await ReadOnlyLog.open(dir);
    const logId = await logIdOf(log);
    const events = bound.filter((event) => event.logId === logId);
    const [newest] = events;
    if (newest === undefined) return {};
    const head = await log.head();
    const ahead = newest.position > head;
    let known: BoundEvent | undefined;
    for (const event of events) {
      if (event.position > head) continue;
      const found = await eventWithPosition(log, event.position);
      if (found?.id === event.id && checksumOfEvent(found) === event.crc32) {
        known = event;
        break;
      }
    }
    const isOther = events.find(({ position }) => position <= head) !== known;
    const position = parsePosition(newest.position);
    if (!isOther) return ahead ? { seen: { position, by: views } } : {};
    const first = known === undefined ? 2 : parsePosition(known.position) + 1;
    const range = `positions ${formatPosition(first)} to ${newest.position}`;
    const reason = `${range} are missing: the log has other events there`;
    return { otherBranch: { files: [`${views} was built from them`], reason } };
  } catch {
    // the opening for writing reports it
    return {};
  } finally {
    await log?.close();
  }
}
