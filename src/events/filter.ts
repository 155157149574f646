/** An `EventFilter` compiled for one check per event. */
import type { EventFilter } from './log.ts';

export class CompiledFilter {
  /** Nothing is filtered out. */
  readonly everything: boolean;
  /** Every stream passes, so that the name need not be checked. */
  readonly anyStream: boolean;
  readonly #types: readonly string[] | undefined;
  readonly #streams: readonly string[];
  /** The result for each type: types are few and recur. */
  readonly #knownTypes = new Map<string, boolean>();

  /** An absent list lets everything pass; an empty one, nothing. */
  constructor(filter: EventFilter = {}) {
    this.#types = filter.types;
    this.#streams = filter.streams ?? [];
    this.anyStream = filter.streams === undefined;
    this.everything = this.anyStream && filter.types === undefined;
  }

  acceptsType(type: string): boolean {
    if (this.#types === undefined) return true;
    let accepted = this.#knownTypes.get(type);
    if (accepted === undefined) {
      accepted = this.#types.some((entry) => (entry.endsWith('.') ? type.startsWith(entry) : type === entry));
      this.#knownTypes.set(type, accepted);
    }
    return accepted;
  }

  acceptsStream(stream: string): boolean {
    return this.anyStream || this.#streams.some((prefix) => stream.startsWith(prefix));
  }

  accepts(type: string, stream: string): boolean {
    return this.acceptsType(type) && this.acceptsStream(stream);
  }
}
