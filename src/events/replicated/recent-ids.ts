/**
 * The ids of the latest accepted events, by position: an append of events that are there already is a repetition. The
 * number of ids is the same on every replica and does not depend on when it was started, so all decide equally.
 */
import { crc32 } from 'node:zlib';

export const recentIdCount = 65_536;
const bucketCount = 2 * recentIdCount;
const none = -1;

export type Repetition =
  /** All events are there, in one append: it begins at this position. */
  | { readonly first: number }
  /** Some of them are, or with others: the id of one of them. */
  | { readonly reused: string };

/** Whether an append begins at a position; of positions that were read from the replica this is not known. */
type Beginning = 'yes' | 'no' | 'unknown';

/**
 * A ring of ids with a hash table of chains over it. A `Map` of strings takes more than twice as long when entries come and go
 * all the time.
 */
export class RecentIds {
  readonly #ids = new Array<string | undefined>(recentIdCount);
  readonly #beginnings = new Array<Beginning | undefined>(recentIdCount);
  readonly #positions = new Float64Array(recentIdCount);
  /** For each bucket, the slot of its latest id; for each slot, the one before it in its bucket. */
  readonly #latest = new Int32Array(bucketCount).fill(none);
  readonly #earlier = new Int32Array(recentIdCount).fill(none);
  #last: number;
  /** The latest answer of `check`. */
  #checked = { position: 0, check: 0 };

  /** @param last position of the last event before the first one that will be added */
  constructor(last: number) {
    this.#last = last;
  }

  /** Position of the last accepted event. */
  get last(): number {
    return this.#last;
  }

  /** Adds the next event of the log. */
  add(id: string, beginsAppend: Beginning): void {
    const slot = ++this.#last % recentIdCount;
    const oldest = this.#ids[slot];
    if (oldest !== undefined) this.#unlink(slot, bucketOf(oldest));
    const bucket = bucketOf(id);
    this.#ids[slot] = id;
    this.#beginnings[slot] = beginsAppend;
    this.#positions[slot] = this.#last;
    this.#earlier[slot] = this.#latest[bucket] ?? none;
    this.#latest[bucket] = slot;
  }

  #unlink(slot: number, bucket: number): void {
    const before = this.#earlier[slot] ?? none;
    let at = this.#latest[bucket] ?? none;
    if (at === slot) {
      this.#latest[bucket] = before;
      return;
    }
    while (at !== none && this.#earlier[at] !== slot) at = this.#earlier[at] ?? none;
    if (at !== none) this.#earlier[at] = before;
  }

  /** The latest position of the id. */
  #positionOf(id: string): number | undefined {
    let slot = this.#latest[bucketOf(id)] ?? none;
    while (slot !== none && this.#ids[slot] !== id) slot = this.#earlier[slot] ?? none;
    return slot === none ? undefined : this.#positions[slot];
  }

  /** @returns undefined when none of the events is there */
  find(ids: readonly string[]): Repetition | undefined {
    const known = ids.find((id) => this.#positionOf(id) !== undefined);
    if (known === undefined) return undefined;
    const first = this.#positionOf(ids[0] ?? '');
    if (first === undefined) return { reused: known };
    const after = first + ids.length;
    const isWhole =
      ids.every((id, index) => this.#positionOf(id) === first + index) &&
      this.#beginning(first) !== 'no' &&
      (after > this.#last || this.#beginning(after) !== 'no');
    return isWhole ? { first } : { reused: known };
  }

  /** CRC-32 of the id at the position; undefined when it is not among the latest. 0 before the first event. */
  check(position: number): number | undefined {
    if (position === 0) return 0;
    if (position > this.#last || position <= this.#last - recentIdCount) return undefined;
    if (position !== this.#checked.position) {
      const id = this.#ids[position % recentIdCount];
      if (id === undefined) return undefined;
      this.#checked = { position, check: crc32(id) };
    }
    return this.#checked.check;
  }

  #beginning(position: number): Beginning | undefined {
    return this.#beginnings[position % recentIdCount];
  }
}

/** FNV-1a. */
function bucketOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return (hash ^ (hash >>> 15)) & (bucketCount - 1);
}
