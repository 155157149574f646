/** The segments of a log in the order of positions. */
import { type Losses, noLosses } from './losses.ts';
import { lastIndexWhere, type Segment } from './segment.ts';

export class LogSegments {
  #list: Segment[];
  readonly losses: Losses;

  constructor(list: readonly Segment[], losses: Losses = noLosses) {
    this.#list = [...list];
    this.losses = losses;
  }

  get all(): readonly Segment[] {
    return this.#list;
  }

  /** The segment that holds the position, or will. */
  holding(position: number): Segment | undefined {
    return this.#list[lastIndexWhere(this.#list, (segment) => segment.first <= position)];
  }

  /**
   * The position after the segment's last event: the next segment begins there, or positions that were accepted as lost.
   * Infinite for the last segment.
   */
  endOf({ first }: { readonly first: number }): number {
    const at = lastIndexWhere(this.#list, (segment) => segment.first <= first);
    const next = this.#list[at + 1];
    return next === undefined ? Number.POSITIVE_INFINITY : this.losses.lastBefore(next.first) + 1;
  }

  add(segment: Segment): void {
    this.#list.push(segment);
  }

  /** Puts the segment in the place of all that begin at its first position or later. */
  replaceFrom(segment: Segment): void {
    this.#list = [...this.#list.filter((member) => member.first < segment.first), segment];
  }
}
