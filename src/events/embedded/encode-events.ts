/** Writes the events of one write as records. */
import { mintEventId } from '../event-id.ts';
import { EventTooLarge, type StreamWrite } from '../log.ts';
import { contextText, recordBound, writeRecord } from './event-record.ts';

/** Where records are written, one after the other. */
export interface RecordTarget {
  readonly buffer: Buffer;
  /** The bytes in use. */
  length: number;
  /** Makes room for this many bytes more; `buffer` may be another one afterwards. */
  reserve(bytes: number): void;
}

/**
 * @param revision of the first event
 * @param at the time of events that have none
 * @throws EventTooLarge, and the error of `JSON.stringify`; `target.length` may then have grown
 */
export function encodeEvents(
  target: RecordTarget,
  { stream, events }: StreamWrite,
  revision: number,
  at: number,
  maxEventBytes: number,
): void {
  let next = revision;
  for (const event of events) {
    const data = JSON.stringify(event.data);
    const context = contextText(event.context);
    const id = event.id ?? mintEventId(at);
    const textLength = id.length + event.type.length + stream.length + context.length + data.length;
    const bodyLength = event.body?.length ?? 0;
    checkSize(event.type, textLength + bodyLength, maxEventBytes);
    target.reserve(recordBound(textLength, bodyLength));
    const start = target.length;
    target.length = writeRecord(target.buffer, start, {
      event,
      stream,
      revision: next++,
      id,
      at: event.at ?? at,
      context,
      data,
    });
    checkSize(event.type, target.length - start, maxEventBytes);
  }
}

function checkSize(type: string, bytes: number, maxBytes: number): void {
  if (bytes > maxBytes) throw new EventTooLarge(type, bytes, maxBytes);
}
