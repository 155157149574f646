/** Finds out which appends were recorded whose answers were lost with the connection. */
import { recordId } from '../embedded/record-layout.ts';
import type { RecordedEvent } from '../event.ts';
import type { Appended } from '../log.ts';
import { formatPosition } from '../sequence-position.ts';
import { readAppend } from './append-message.ts';
import { messageHeaderBytes } from './messages.ts';
import type { UnansweredAppend } from './sent-appends.ts';
import type { SharedReads } from './shared-reads.ts';

interface Wanted {
  readonly append: UnansweredAppend;
  /** Number of events of each write. */
  readonly counts: readonly number[];
  readonly found: RecordedEvent[];
}

/**
 * An append that is not among them was not recorded, and will not be: its primary has ended, or has handled everything of the
 * lost connection. Those without events, and those whose events had been recorded before, are not among them either.
 * @param head up to which the log is read
 */
export async function findRecorded(
  reads: Pick<SharedReads, 'readAll'>,
  appends: readonly UnansweredAppend[],
  head: number,
): Promise<Map<UnansweredAppend, Appended>> {
  const wanted = wantedOf(appends);
  const recorded = new Map<UnansweredAppend, Appended>();
  const first = Math.min(...appends.map(({ seen }) => seen));
  if (wanted.size === 0 || first >= head) return recorded;
  let current: Wanted | undefined;
  for await (const event of reads.readAll({ after: formatPosition(first), maxCount: head - first })) {
    current ??= wanted.get(event.id);
    if (current === undefined) continue;
    const { append, counts, found } = current;
    found.push(event);
    if (found.length < counts.reduce((sum, count) => sum + count, 0)) continue;
    recorded.set(append, appendedFrom(found, counts));
    current = undefined;
  }
  return recorded;
}

/** By the ids of their first events. */
function wantedOf(appends: readonly UnansweredAppend[]): Map<string, Wanted> {
  const wanted = new Map<string, Wanted>();
  for (const append of appends) {
    if (append.message === undefined) continue;
    const { writes, records } = readAppend(append.message, append.start + messageHeaderBytes, append.end);
    if (records.length === 0) continue;
    wanted.set(recordId(records, 0), { append, counts: writes.map(({ count }) => count), found: [] });
  }
  return wanted;
}

function appendedFrom(events: readonly RecordedEvent[], counts: readonly number[]): Appended {
  let next = 0;
  const revisions = counts.map((count) => {
    next += count;
    return count === 0 ? -1n : (events[next - 1]?.revision ?? -1n);
  });
  return { position: events.at(-1)?.position ?? formatPosition(0), revisions };
}
