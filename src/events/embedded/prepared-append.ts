/**
 * An append that cannot be put into a batch yet. It is encoded at the call, with ids and time, so that later changes of
 * its events have no effect. Only the revisions are missing.
 */
import type { StreamName } from '../event.ts';
import type { ExpectedRevision, StreamWrite } from '../log.ts';
import { wallClock } from '../wall-clock.ts';
import { encodeEvents, type RecordTarget } from './encode-events.ts';
import { withRoom } from './with-room.ts';

/** Memory of an append beside its records. */
export const appendOverheadBytes = 256;
/** A larger buffer is not kept. */
const keptScratchBytes = 256 * 1024;

export interface PreparedWrite {
  readonly stream: StreamName;
  readonly expectedRevision: ExpectedRevision;
  /** Number of records of this write. */
  readonly count: number;
}

/** An append as records, whose revisions are not filled in. */
export interface EncodedAppend {
  readonly writes: readonly PreparedWrite[];
  /** The records of all writes, one after the other. */
  readonly records: Buffer;
}

export interface SizedAppend extends EncodedAppend {
  /** Its memory. */
  readonly bytes: number;
}

export class PreparedAppend implements SizedAppend {
  readonly writes: readonly PreparedWrite[];
  /** The records, one after the other. */
  readonly records: Buffer;

  /** @throws EventTooLarge, and the error of `JSON.stringify` */
  constructor(writes: readonly StreamWrite[], maxEventBytes: number) {
    const at = wallClock();
    const scratch = takeScratch();
    for (const write of writes) encodeEvents(scratch, write, 0, at, maxEventBytes);
    this.records = Buffer.allocUnsafe(scratch.length);
    scratch.buffer.copy(this.records, 0, 0, scratch.length);
    this.writes = writes.map(({ stream, expectedRevision, events }) => {
      return { stream, expectedRevision, count: events.length };
    });
  }

  /** Its memory in bytes. */
  get bytes(): number {
    return this.records.length + appendOverheadBytes;
  }
}

/** Where records are encoded before their size is known. */
class Scratch implements RecordTarget {
  buffer: Buffer = Buffer.allocUnsafeSlow(16 * 1024);
  length = 0;

  reserve(bytes: number): void {
    this.buffer = withRoom(this.buffer, this.length, bytes);
  }
}

let kept = new Scratch();

function takeScratch(): Scratch {
  if (kept.buffer.length > keptScratchBytes) kept = new Scratch();
  kept.length = 0;
  return kept;
}
