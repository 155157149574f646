/** The segments of a log in the order of positions. */
import { lastIndexWhere, type Segment } from './segment.ts';

export class LogSegments {
  #list: Segment[];

  constructor(list: readonly Segment[]) {
    this.#list = [...list];
  }

  get all(): readonly Segment[] {
    return this.#list;
  }

  /** The segment that holds the position, or will. */
  holding(position: number): Segment | undefined {
    return this.#list[lastIndexWhere(this.#list, (segment) => segment.first <= position)];
  }

  /** First position of the segment after that one; infinite when there is none. */
  endOf({ first }: { readonly first: number }): number {
    const at = lastIndexWhere(this.#list, (segment) => segment.first <= first);
    return this.#list[at + 1]?.first ?? Number.POSITIVE_INFINITY;
  }

  add(segment: Segment): void {
    this.#list.push(segment);
  }

  /** Puts the segment in the place of all that begin at its first position or later. */
  replaceFrom(segment: Segment): void {
    this.#list = [...this.#list.filter((member) => member.first < segment.first), segment];
  }
}
