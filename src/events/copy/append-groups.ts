/** Puts stored records together to appends that expect the revisions that the records have. */
import type { EncodedAppend, PreparedWrite } from '../embedded/append-batch.ts';
import { recordEnd, recordRevision, recordStream, sameStream } from '../embedded/event-record.ts';
import type { RecordRun } from './stored-records.ts';

/** EventStoreDB takes an append of up to 768 KiB, and Kafka one of about 1 MiB, in one piece. */
const groupBytes = 512 * 1024;
/** Every write is part of the append's head, which EventStoreDB has in the metadata of one event. */
const mostWrites = 500;

export interface RecordGroup extends EncodedAppend {
  /** Position of its last record. */
  readonly last: number;
}

/** A record that is larger than the size of a group is one by itself. */
export async function* recordGroups(runs: AsyncIterable<RecordRun>): AsyncGenerator<RecordGroup> {
  let group: OpenGroup | undefined;
  for await (const { buffer, start, end, first } of runs) {
    let position = first;
    for (let at = start; at < end; at = recordEnd(buffer, at)) {
      const record = buffer.subarray(at, recordEnd(buffer, at));
      if (group !== undefined && !group.hasRoomFor(record)) {
        yield group;
        group = undefined;
      }
      group ??= new OpenGroup(record.length);
      group.add(record, position++);
    }
  }
  if (group !== undefined) yield group;
}

class OpenGroup implements RecordGroup {
  readonly writes: PreparedWrite[] = [];
  last = 0;
  readonly #buffer: Buffer;
  #length = 0;
  #latest = 0;

  constructor(firstBytes: number) {
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(groupBytes, firstBytes));
  }

  get records(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  hasRoomFor(record: Buffer): boolean {
    return this.#length + record.length <= this.#buffer.length && this.writes.length < mostWrites;
  }

  add(record: Buffer, position: number): void {
    const at = this.#length;
    record.copy(this.#buffer, at);
    this.#length += record.length;
    this.last = position;
    const revision = recordRevision(record, 0);
    const latest = this.writes.at(-1);
    const continues =
      latest !== undefined &&
      sameStream(this.#buffer, this.#latest, at) &&
      recordRevision(this.#buffer, this.#latest) === revision - 1;
    this.#latest = at;
    if (continues) {
      this.writes[this.writes.length - 1] = { ...latest, count: latest.count + 1 };
      return;
    }
    const expectedRevision = revision === 0 ? 'noStream' : BigInt(revision - 1);
    this.writes.push({ stream: recordStream(record, 0), expectedRevision, count: 1 });
  }
}
