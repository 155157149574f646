/**
 * Which number of each writer was processed last. A writer sends its appends in the order of their numbers, and again
 * when it does not know the outcome; only the first arrival counts. The answer depends on the engine's content alone, so
 * every replica gives the same one.
 */

/** A writer is forgotten when this many appends of others lie behind its last one. */
const memory = 2 ** 20;

interface LastAppend {
  readonly number: number;
  /** How many appends had been counted when it was. */
  readonly at: number;
}

export interface SavedNumbers {
  /** How many appends have been counted. */
  readonly counted: number;
  readonly writers: readonly (readonly [writer: string, number: number, at: number])[];
}

export class WriterNumbers {
  readonly #last = new Map<string, LastAppend>();
  #counted: number;

  constructor(saved: SavedNumbers = { counted: 0, writers: [] }) {
    this.#counted = saved.counted;
    for (const [writer, number, at] of saved.writers) this.#last.set(writer, { number, at });
  }

  /**
   * Notes the append, unless it or a later one of its writer was processed before.
   * @returns a function that undoes it, to be called in the reverse order; undefined for a repetition
   */
  count(writer: string, number: number): (() => void) | undefined {
    const last = this.#last.get(writer);
    if (last !== undefined && this.#counted - last.at <= memory && number <= last.number) return undefined;
    this.#last.set(writer, { number, at: this.#counted++ });
    return () => {
      this.#counted--;
      if (last === undefined) this.#last.delete(writer);
      else this.#last.set(writer, last);
    };
  }

  save(): SavedNumbers {
    for (const [writer, { at }] of this.#last) if (this.#counted - at > memory) this.#last.delete(writer);
    return {
      counted: this.#counted,
      writers: [...this.#last].map(([writer, { number, at }]) => [writer, number, at] as const),
    };
  }
}
