/** Places appends into a log in a given order. Unlike `append`, none passes another one that waits. */
import type { StreamName } from '../event.ts';
import type { Appended } from '../log.ts';
import type { EncodedAppend, PreparedWrite } from './append-batch.ts';
import type { GroupCommit } from './group-commit.ts';

export class InOrderWriter {
  readonly #commit: GroupCommit;
  readonly #lookUp: (streams: readonly StreamName[]) => Promise<ReadonlyMap<StreamName, number>>;
  /** Since the latest `prepare` began: nothing is placed before it ends, so all of it holds then. */
  readonly #found = new Map<StreamName, number>();

  constructor(
    commit: GroupCommit,
    lookUp: (streams: readonly StreamName[]) => Promise<ReadonlyMap<StreamName, number>>,
  ) {
    this.#commit = commit;
    this.#lookUp = lookUp;
  }

  /**
   * Waits until the log takes records and knows the streams of the writes. The appends with these writes must be placed
   * before the next turn of the event loop.
   * @throws LogCorrupted; what the disk and SQLite throw
   */
  async prepare(writes: Iterable<PreparedWrite>, signal: AbortSignal): Promise<void> {
    this.#found.clear();
    const unknown = new Set<StreamName>();
    for (;;) {
      if (!this.#commit.takesRecords) await this.#takesRecords(signal);
      signal.throwIfAborted();
      unknown.clear();
      for (const write of writes) {
        if (!this.#found.has(write.stream) && !this.#commit.isKnown(write)) unknown.add(write.stream);
      }
      if (unknown.size === 0) return;
      // what was known can be unknown after the look-up: a segment has left the memory, or too many were looked up
      for (const [stream, last] of await this.#lookUp([...unknown])) this.#found.set(stream, last);
    }
  }

  async #takesRecords(signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<void>();
    const abort = () => aborted.resolve();
    signal.addEventListener('abort', abort);
    while (!this.#commit.takesRecords && !signal.aborted) await Promise.race([this.#commit.changed(), aborted.promise]);
    signal.removeEventListener('abort', abort);
  }

  /**
   * @returns its revisions and position, which hold if `written` reaches the position; undefined when a stream must be
   *   looked up first, and nothing was placed: not for the first append after `prepare`
   * @throws WrongExpectedRevision; LogUnavailable when the disk has refused something that was placed before
   */
  place(append: EncodedAppend): Appended | undefined {
    return this.#commit.placeInOrder(append, this.#found);
  }

  /**
   * Writes what was placed and makes it visible.
   * @returns position of the last event that is written. What was placed after it is undone: the disk refused it.
   */
  write(): number {
    return this.#commit.writePlaced();
  }
}
