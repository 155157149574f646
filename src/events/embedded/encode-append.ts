/** Turns one append into records at the end of a batch, with their revisions: all of it, or nothing. */
import type { StreamName } from '../event.ts';
import type { ExpectedRevision, StreamWrite } from '../log.ts';
import { checkExpectedRevision } from '../revisions.ts';
import { wallClock } from '../wall-clock.ts';
import type { AppendBatch } from './batch.ts';
import { encodeEvents } from './encode-events.ts';
import type { EncodedAppend } from './prepared-append.ts';
import { recordEnd, setRecordRevision } from './record-layout.ts';

/**
 * Revision of a stream's last event in segments before the batch's, -1 for none; undefined when it is not known.
 * `expected` is what the append expects of the stream.
 */
export type OlderRevision = (stream: StreamName, expected: ExpectedRevision) => number | undefined;

/**
 * @returns the revision of the last event of each write, -1 where the stream still has none; undefined when a revision
 *   is not known; the batch is then unchanged
 * @throws WrongExpectedRevision, EventTooLarge, and the error of `JSON.stringify`; the batch is then unchanged
 */
export function encodeAppend(
  batch: AppendBatch,
  writes: readonly StreamWrite[],
  olderRevision: OlderRevision,
  maxEventBytes: number,
): number[] | undefined {
  const start = batch.length;
  const at = wallClock();
  const lasts: number[] = [];
  let count = 0;
  try {
    for (let index = 0; index < writes.length; index++) {
      const write = writes[index];
      if (write === undefined) continue;
      const last = revisionBefore(batch, writes, lasts, index, olderRevision);
      if (last === undefined) {
        batch.length = start;
        return undefined;
      }
      checkExpectedRevision(write, last);
      encodeEvents(batch, write, last + 1, at, maxEventBytes);
      lasts.push(last + write.events.length);
      count += write.events.length;
    }
  } catch (error) {
    batch.length = start;
    throw error;
  }
  for (let index = 0; index < writes.length; index++) {
    const write = writes[index];
    if (write !== undefined) noteStream(batch, write.stream, write.events.length, lasts[index]);
  }
  batch.count += count;
  return lasts;
}

/** As `encodeAppend`, for records that exist already: only their revisions are filled in. */
export function placeAppend(
  batch: AppendBatch,
  append: EncodedAppend,
  olderRevision: OlderRevision,
): number[] | undefined {
  const { writes } = append;
  const lasts: number[] = [];
  for (const [index, write] of writes.entries()) {
    const last = revisionBefore(batch, writes, lasts, index, olderRevision);
    if (last === undefined) return undefined;
    checkExpectedRevision(write, last);
    lasts.push(last + write.count);
  }
  batch.reserve(append.records.length);
  append.records.copy(batch.buffer, batch.length);
  let record = batch.length;
  for (const [index, { stream, count }] of writes.entries()) {
    const last = lasts[index] ?? 0;
    for (let revision = last - count + 1; revision <= last; revision++) {
      setRecordRevision(batch.buffer, record, revision);
      record = recordEnd(batch.buffer, record);
    }
    noteStream(batch, stream, count, last);
    batch.count += count;
  }
  batch.length += append.records.length;
  return lasts;
}

/** Revision of the stream's last event before this write, earlier writes of the same append counted. */
function revisionBefore(
  batch: AppendBatch,
  writes: readonly Pick<StreamWrite, 'stream' | 'expectedRevision'>[],
  lasts: readonly number[],
  index: number,
  olderRevision: OlderRevision,
): number | undefined {
  const write = writes[index];
  if (write === undefined) return undefined;
  const { stream, expectedRevision } = write;
  for (let earlier = index - 1; earlier >= 0; earlier--) {
    if (writes[earlier]?.stream === stream) return lasts[earlier];
  }
  return streamsOf(batch).lastRevision(stream) ?? olderRevision(stream, expectedRevision);
}

function noteStream(batch: AppendBatch, stream: StreamName, count: number, last: number | undefined): void {
  if (last === undefined || count === 0) return;
  streamsOf(batch).note(stream, batch.offset, last - count + 1, last);
}

function streamsOf({ segment: { streams } }: AppendBatch) {
  if (streams === undefined) throw new Error('the segment that is written to has no stream map');
  return streams;
}
