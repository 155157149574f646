/** The newest rows in order, up to a capacity: the newest are kept, for any order of arrival. */
import { comparePlaces, type LiveRow, type RowPlace } from './live-row.ts';

export class RowList {
  readonly #capacity: number;
  readonly #byId = new Map<string, LiveRow>();
  /** Oldest first. */
  readonly #places: RowPlace[] = [];
  #rows: readonly LiveRow[] | undefined = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#byId.size;
  }

  /** Oldest first. The same array until a row changes. */
  get rows(): readonly LiveRow[] {
    this.#rows ??= this.#places.flatMap(({ id }) => this.#byId.get(id) ?? []);
    return this.#rows;
  }

  get(id: string): LiveRow | undefined {
    return this.#byId.get(id);
  }

  /** Adds or replaces a row. Returns false when the list is full and the row is older than all of it. */
  put(row: LiveRow): boolean {
    if (!this.#byId.has(row.id)) {
      const oldest = this.#places[0];
      const isFull = this.#places.length >= this.#capacity;
      if (isFull && oldest !== undefined && comparePlaces(row, oldest) < 0) return false;
      this.#places.splice(this.#indexFor(row), 0, { startedAt: row.startedAt, id: row.id });
      const dropped = isFull ? this.#places.shift() : undefined;
      if (dropped !== undefined) this.#byId.delete(dropped.id);
    }
    this.#byId.set(row.id, row);
    this.#rows = undefined;
    return true;
  }

  /** Nearly every new row is the newest: searched from the end. */
  #indexFor(place: RowPlace): number {
    let index = this.#places.length;
    let step = 1;
    let low = 0;
    while (index > 0) {
      const at = Math.max(0, index - step);
      const other = this.#places[at];
      if (other !== undefined && comparePlaces(other, place) < 0) {
        low = at + 1;
        break;
      }
      index = at;
      step *= 2;
    }
    while (low < index) {
      const middle = (low + index) >> 1;
      const other = this.#places[middle];
      if (other !== undefined && comparePlaces(other, place) < 0) low = middle + 1;
      else index = middle;
    }
    return low;
  }
}
