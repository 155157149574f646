/** Finds the position of a time in the log. */
import type { Position } from './event.ts';
import { type EventLog, START } from './log.ts';
import { formatPosition, parsePosition } from './sequence-position.ts';

/**
 * A position before which there is no event of time `at` (milliseconds since the epoch) or later, found by binary
 * search: for engines that number their events. Times of neighbouring events may be slightly out of order, so a read
 * from there may yield a few older events.
 */
export async function positionAtTime(log: EventLog, at: number): Promise<Position> {
  let low = 0;
  let high = parsePosition(await log.head());
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const time = await timeAfter(log, formatPosition(middle));
    if (time !== undefined && time < at) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? START : formatPosition(low);
}

async function timeAfter(log: EventLog, after: Position): Promise<number | undefined> {
  for await (const event of log.readAll({ after, maxCount: 1 })) return event.at;
  return undefined;
}
