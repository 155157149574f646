/** Turns one append into records at the end of a batch, with their revisions: all of it, or nothing. */
import type { StreamName } from '../event.ts';
import { mintEventId } from '../event-id.ts';
import type { StreamWrite } from '../log.ts';
import { EventTooLarge } from '../log.ts';
import { checkExpectedRevision } from '../revisions.ts';
import { wallClock } from '../wall-clock.ts';
import type { Batch } from './batch.ts';
import { contextText, recordBound, writeRecord } from './event-record.ts';

/**
 * @param olderRevision revision of a stream's last event in segments before the batch's, -1 for none
 * @returns the revision of the last event of each write; -1 where the stream still has none
 * @throws WrongExpectedRevision, EventTooLarge, and what makes data no JSON; the batch is then as it was
 */
export function encodeAppend(
  batch: Batch,
  writes: readonly StreamWrite[],
  olderRevision: (stream: StreamName) => number,
  maxEventBytes: number,
): number[] {
  const start = batch.length;
  const { streams } = batch.segment;
  if (streams === undefined) throw new Error('the segment that is written to has no stream map');
  const at = wallClock();
  const lasts: number[] = [];
  let count = 0;
  try {
    for (let index = 0; index < writes.length; index++) {
      const write = writes[index];
      if (write === undefined) continue;
      const { stream, events } = write;
      let last = plannedRevision(writes, lasts, index) ?? streams.lastRevision(stream) ?? olderRevision(stream);
      checkExpectedRevision(write, last);
      for (const event of events) {
        last++;
        const data = JSON.stringify(event.data);
        const context = contextText(event.context);
        const id = event.id ?? mintEventId(at);
        const textLength = id.length + event.type.length + stream.length + context.length + data.length;
        const bodyLength = event.body?.length ?? 0;
        checkSize(event.type, textLength + bodyLength, maxEventBytes);
        batch.reserve(recordBound(textLength, bodyLength));
        const recordStart = batch.length;
        batch.length = writeRecord(batch.buffer, recordStart, {
          event,
          stream,
          revision: last,
          id,
          at: event.at ?? at,
          context,
          data,
        });
        checkSize(event.type, batch.length - recordStart, maxEventBytes);
        count++;
      }
      lasts.push(last);
    }
  } catch (error) {
    batch.length = start;
    throw error;
  }
  for (let index = 0; index < writes.length; index++) {
    const write = writes[index];
    const last = lasts[index];
    if (write === undefined || last === undefined || write.events.length === 0) continue;
    streams.note(write.stream, batch.offset, last - write.events.length + 1, last);
  }
  batch.count += count;
  return lasts;
}

function checkSize(type: string, bytes: number, maxBytes: number): void {
  if (bytes > maxBytes) throw new EventTooLarge(type, bytes, maxBytes);
}

/** Revision that an earlier write of the same append leaves the stream at; undefined when there is none. */
function plannedRevision(writes: readonly StreamWrite[], lasts: readonly number[], index: number): number | undefined {
  for (let earlier = index - 1; earlier >= 0; earlier--) {
    if (writes[earlier]?.stream === writes[index]?.stream) return lasts[earlier];
  }
  return undefined;
}
