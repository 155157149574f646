import { categoryOf, type StreamName } from '../../event.ts';

/** The greatest stream name of each category: most new streams are named after the time, and so are greater. */
export class GreatestNames {
  readonly #names: Map<string, string>;

  constructor(names: Iterable<readonly [category: string, greatest: string]> = []) {
    this.#names = new Map(names);
  }

  note(category: string, name: string): void {
    const known = this.#names.get(category);
    if (known === undefined || name > known) this.#names.set(category, name);
  }

  /** Whether the stream is certainly none of those that the names were taken from. */
  lack(stream: StreamName): boolean {
    const greatest = this.#names.get(categoryOf(stream));
    return greatest === undefined || stream > greatest;
  }
}
