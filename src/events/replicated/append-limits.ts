/** How large an append may be, which the layout of a frame and the engine limit. */
import type { EncodedAppend } from '../embedded/append-batch.ts';
import { recordType } from '../embedded/event-record.ts';
import { EventTooLarge, type StreamWrite } from '../log.ts';
import type { LogEngine } from './engine.ts';

const maxWrites = 65_535;
const maxNameBytes = 65_535;

/** @throws RangeError */
export function checkStreamNames(writes: readonly StreamWrite[]): void {
  for (const { stream } of writes) {
    if (Buffer.byteLength(stream) > maxNameBytes)
      throw new RangeError(`a stream name has at most ${maxNameBytes} bytes`);
  }
}

/** @throws RangeError; EventTooLarge when the engine does not take an append of this size */
export function checkSize({ writes, records }: EncodedAppend, { maxAppendBytes }: LogEngine): void {
  if (writes.length > maxWrites) throw new RangeError(`an append has at most ${maxWrites} writes`);
  if (records.length > maxAppendBytes) {
    throw new EventTooLarge(recordType(records, 0), records.length, maxAppendBytes);
  }
}
