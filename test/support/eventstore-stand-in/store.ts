/**
 * The events of the stand-in in one file. An append is acknowledged after `fdatasync` and becomes visible then; appends
 * that wait share one. The rules of expected revisions and of ids that are appended again are those of EventStoreDB
 * (`IndexWriter.cs`): with `any` only the latest ids are known.
 */
import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  write,
  writeSync,
} from 'node:fs';
import { promisify } from 'node:util';
import { decodeWrite, encodeWrite, frameLength, type ProposedEvent, type StoredEvent } from './stored-writes.ts';

export type ExpectedState = 'any' | 'noStream' | 'exists' | bigint;

export interface AppendedWrite {
  readonly revision: number;
  readonly position: number;
}

/** The stream has another revision than expected; undefined: no stream. */
export class WrongRevision extends Error {
  readonly actual: number | undefined;
  constructor(actual: number | undefined) {
    super(`the stream is at ${actual ?? 'no event'}`);
    this.actual = actual;
  }
}

const fileMagic = 'stand-in';
const knownIds = 65_536;
const blockBytes = 16 * 1024 * 1024;
const maxBlockBytes = 256 * 1024 * 1024;
const syncFile = promisify(fdatasync);

function writeAll(fd: number, bytes: Buffer, place: number): Promise<void> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, place, (error) => (error === null ? resolve() : reject(error)));
  });
}

export class Store {
  readonly #fd: number;
  /** Places of the writes in the file, in order; only those that are synced. */
  readonly #places: number[] = [];
  readonly #lengths: number[] = [];
  /** Per stream: ids by revision. Kept whole: this is a stand-in. */
  readonly #streams = new Map<string, { ids: string[]; writes: number[] }>();
  readonly #known = new Map<string, { stream: string; revision: number; position: number }>();
  #end = fileMagic.length;
  #waiting: { frame: Buffer; place: number; done: () => void; failed: (error: Error) => void }[] = [];
  #flushing = false;
  #listeners = new Set<() => void>();

  constructor(path: string) {
    this.#fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
    if (fstatSync(this.#fd).size < fileMagic.length) {
      ftruncateSync(this.#fd, 0);
      writeSync(this.#fd, fileMagic, 0);
      return;
    }
    this.#readFile();
    ftruncateSync(this.#fd, this.#end);
  }

  /** In blocks: a file can be larger than a buffer. */
  #readFile(): void {
    let block = Buffer.alloc(blockBytes);
    for (;;) {
      const start = this.#end;
      const bytes = block.subarray(0, readSync(this.#fd, block, 0, block.length, start));
      for (let length = frameLength(bytes, 0); length !== undefined; length = frameLength(bytes, this.#end - start)) {
        const at = this.#end - start;
        this.#note(decodeWrite(bytes.subarray(at, at + length), this.#end));
        this.#places.push(this.#end);
        this.#lengths.push(length);
        this.#end += length;
      }
      if (bytes.length < block.length) return;
      // No whole frame in the block: one that is larger, or a damaged one, which ends the file.
      if (this.#end === start) block = Buffer.alloc(block.length * 2);
      if (block.length > maxBlockBytes) return;
    }
  }

  /** Position of the last event; 0 without any. */
  get lastPosition(): number {
    const last = this.#places.length - 1;
    return last < 0 ? 0 : (this.writeAt(last).at(-1)?.position ?? 0);
  }

  /** Number of visible writes. */
  get writeCount(): number {
    return this.#places.length;
  }

  lastRevision(stream: string): number | undefined {
    const count = this.#streams.get(stream)?.ids.length ?? 0;
    return count === 0 ? undefined : count - 1;
  }

  /** Resolves once the events are on disk. @throws WrongRevision */
  append(stream: string, expected: ExpectedState, events: readonly ProposedEvent[]): Promise<AppendedWrite> {
    const before = this.#appendedBefore(stream, expected, events);
    // A repetition is answered after the flush that contains the first one.
    if (before !== undefined) return this.#enqueue(Buffer.alloc(0), before);
    const revision = (this.lastRevision(stream) ?? -1) + 1;
    const frame = encodeWrite(stream, revision, events, Date.now());
    const last = Math.max(0, events.length - 1);
    const appended = { revision: revision + last, position: this.#end + last };
    this.#note(decodeWrite(frame, this.#end));
    return this.#enqueue(frame, appended);
  }

  /** Index of the first write that has an event at or after the position. */
  firstWriteFrom(position: number): number {
    let low = 0;
    let high = this.#places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#places[middle] ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return 0;
    return (this.writeAt(low - 1).at(-1)?.position ?? 0) >= position ? low - 1 : low;
  }

  /** The visible events of a stream, in order. */
  streamEvents(stream: string): StoredEvent[] {
    const places = [...new Set(this.#streams.get(stream)?.writes)];
    return places.flatMap((place) => {
      const index = this.firstWriteFrom(place);
      return this.#places[index] === place ? this.writeAt(index) : [];
    });
  }

  /** @returns a function that ends the calls */
  onAppended(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** The events of a visible write. */
  writeAt(index: number): StoredEvent[] {
    const place = this.#places[index] ?? 0;
    const frame = Buffer.allocUnsafe(this.#lengths[index] ?? 0);
    readSync(this.#fd, frame, 0, frame.length, place);
    return decodeWrite(frame, place);
  }

  #enqueue(frame: Buffer, appended: AppendedWrite): Promise<AppendedWrite> {
    const place = this.#end;
    this.#end += frame.length;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ frame, place, done: () => resolve(appended), failed: reject });
      if (!this.#flushing) void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#flushing = true;
    while (this.#waiting.length > 0) {
      const group = this.#waiting;
      this.#waiting = [];
      try {
        const frames = Buffer.concat(group.map(({ frame }) => frame));
        await writeAll(this.#fd, frames, group[0]?.place ?? 0);
        await syncFile(this.#fd);
        for (const { place, frame } of group) {
          if (frame.length === 0) continue;
          this.#places.push(place);
          this.#lengths.push(frame.length);
        }
        for (const { done } of group) done();
        for (const listener of this.#listeners) listener();
      } catch (error) {
        for (const { failed } of group) failed(error as Error);
      }
    }
    this.#flushing = false;
  }

  #note(events: readonly StoredEvent[]): void {
    for (const { id, stream, revision, position } of events) {
      const known = this.#streams.get(stream) ?? { ids: [], writes: [] };
      this.#streams.set(stream, known);
      known.ids.push(id);
      known.writes.push(events[0]?.position ?? position);
      this.#known.set(id, { stream, revision, position });
    }
    for (const id of this.#known.keys()) {
      if (this.#known.size <= knownIds) break;
      this.#known.delete(id);
    }
  }

  /** What the same append returned before. @throws WrongRevision */
  #appendedBefore(
    stream: string,
    expected: ExpectedState,
    events: readonly ProposedEvent[],
  ): AppendedWrite | undefined {
    const last = this.lastRevision(stream);
    if (expected === 'any' || expected === 'exists') {
      if (expected === 'exists' && last === undefined) throw new WrongRevision(last);
      const found = events
        .map(({ id }) => this.#known.get(id))
        .map((known) => (known?.stream === stream ? known : undefined));
      if (found[0] === undefined) return undefined;
      if (found.includes(undefined)) throw new WrongRevision(last);
      return found.at(-1);
    }
    const next = expected === 'noStream' ? 0 : Number(expected) + 1;
    if (next === (last ?? -1) + 1) return undefined;
    const ids = this.#streams.get(stream)?.ids ?? [];
    if (events.length === 0 || events.some(({ id }, index) => ids[next + index] !== id)) throw new WrongRevision(last);
    return this.#known.get(events.at(-1)?.id ?? '') ?? { revision: next + events.length - 1, position: 0 };
  }
}
