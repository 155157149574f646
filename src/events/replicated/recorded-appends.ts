/** The events of a replica that lie behind the place where its engine is read: which of them an append has recorded. */
import type { EmbeddedLog } from '../embedded/embedded-log.ts';
import type { RecordedEvent } from '../event.ts';
import { formatPosition } from '../sequence-position.ts';

export class RecordedAppends {
  readonly #events: AsyncIterator<RecordedEvent>;
  #next: string[] = [];

  /** @param after position of the last event before that place */
  constructor(replica: Pick<EmbeddedLog, 'readAll'>, after: number) {
    this.#events = replica.readAll({ after: formatPosition(after) })[Symbol.asyncIterator]();
  }

  /** Whether the next events are those with these ids; they are then taken. */
  async take(ids: readonly string[]): Promise<boolean> {
    while (this.#next.length < ids.length) {
      const { value, done } = await this.#events.next();
      if (done) return false;
      this.#next.push(value.id);
    }
    if (!ids.every((id, index) => this.#next[index] === id)) return false;
    this.#next = this.#next.slice(ids.length);
    return true;
  }
}
