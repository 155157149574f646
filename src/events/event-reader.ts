/** The interface of an engine below `readAll` and `subscribe`: the log from a position on, read block by block. */
import type { RecordedEvent } from './event.ts';

export interface EventReader {
  /** The next matching event among the loaded ones, or undefined when more must be loaded first. */
  take(): RecordedEvent | undefined;
  /** Loads more events. Resolves to false when there are no more for now. @throws LogCorrupted */
  load(): Promise<boolean>;
  /** Everything up to here has been taken or filtered out. */
  readonly position: number;
  /** Releases files and memory. A closed reader yields nothing. */
  close(): void;
}

const finished = Object.freeze({ value: undefined, done: true as const });

/** Yields what the reader has, up to `maxCount` events, and ends when there is no more or when aborted. */
export class ReaderIteration implements AsyncIterableIterator<RecordedEvent> {
  readonly #open: () => EventReader;
  readonly #signal: AbortSignal | undefined;
  #reader: EventReader | undefined;
  #left: number;
  #ended = false;

  /** @param open called at the first `next`, so that a log is read as of then */
  constructor(open: () => EventReader, maxCount = Number.POSITIVE_INFINITY, signal?: AbortSignal) {
    this.#open = open;
    this.#left = maxCount;
    this.#signal = signal;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<RecordedEvent>> {
    const event = this.#ended || this.#left <= 0 ? undefined : this.#reader?.take();
    return event === undefined ? this.#loadNext() : Promise.resolve(this.#give(event));
  }

  #give(event: RecordedEvent): IteratorResult<RecordedEvent> {
    this.#left--;
    return this.#signal?.aborted ? this.#end() : { value: event, done: false };
  }

  async #loadNext(): Promise<IteratorResult<RecordedEvent>> {
    try {
      while (!this.#ended && this.#left > 0 && !this.#signal?.aborted) {
        this.#reader ??= this.#open();
        const event = this.#reader.take();
        if (event !== undefined) return this.#give(event);
        if (!(await this.#reader.load())) break;
      }
    } catch (error) {
      this.#end();
      throw error;
    }
    return this.#end();
  }

  #end(): IteratorResult<RecordedEvent> {
    this.#ended = true;
    this.#reader?.close();
    this.#reader = undefined;
    return finished;
  }

  return(): Promise<IteratorResult<RecordedEvent>> {
    return Promise.resolve(this.#end());
  }
}
