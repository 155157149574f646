/**
 * Last revisions that were looked up in the segments whose streams are not in memory. They hold until another segment leaves
 * the memory. So a stream that is the condition of every append, such as that of a lease, is looked up once and not each time.
 */
import type { StreamName } from '../../event.ts';

const maxStreams = 1_000;

export class LookedUpRevisions {
  #known = new Map<StreamName, number>();

  /** -1 when the stream has no event there; undefined when it was not looked up. */
  get(stream: StreamName): number | undefined {
    return this.#known.get(stream);
  }

  /**
   * To be called when a look-up begins.
   * @returns keeps what it has found, unless a segment has left the memory since
   */
  begin(): (found: ReadonlyMap<StreamName, number>) => void {
    const known = this.#known;
    return (found) => {
      if (known.size + found.size > maxStreams) known.clear();
      for (const [stream, last] of found) known.set(stream, last);
    };
  }

  /** A segment leaves the memory, or segments were removed. */
  forget(): void {
    this.#known = new Map();
  }
}
