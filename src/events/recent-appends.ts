/** Appends whose events came with ids, so that a repeated append is recognised. */
import { EventIdReused, type StreamWrite } from './log.ts';

/** Most ids that are kept. */
const usualLimit = 65_536;

export interface RecentAppend<Outcome> {
  readonly outcome: Outcome;
  readonly ids: readonly string[];
  /** How many events it had, also those without ids. */
  readonly events: number;
}

/** The latest appends; the oldest are removed first. */
export class RecentAppends<Outcome> {
  readonly #byId = new Map<string, RecentAppend<Outcome>>();
  readonly #limit: number;

  constructor(limit = usualLimit) {
    this.#limit = limit;
  }

  /**
   * The earlier append of these events; undefined when none of their ids is known.
   * @throws EventIdReused when some are, but the append is another one
   */
  find(writes: readonly StreamWrite[]): RecentAppend<Outcome> | undefined {
    if (this.#byId.size === 0) return undefined;
    const ids = idsOf(writes);
    const known = ids.find((id) => this.#byId.has(id));
    if (known === undefined) return undefined;
    const earlier = this.#byId.get(known);
    const same = ids.every((id) => this.#byId.get(id) === earlier) && ids.length === earlier?.ids.length;
    if (!same || earlier.events !== eventsIn(writes)) throw new EventIdReused(known);
    return earlier;
  }

  add(writes: readonly StreamWrite[], outcome: Outcome): RecentAppend<Outcome> {
    const append = { outcome, ids: idsOf(writes), events: eventsIn(writes) };
    for (const id of append.ids) this.#byId.set(id, append);
    for (const [, oldest] of this.#byId) {
      if (this.#byId.size <= this.#limit) break;
      this.remove(oldest);
    }
    return append;
  }

  remove(append: RecentAppend<Outcome>): void {
    for (const id of append.ids) if (this.#byId.get(id) === append) this.#byId.delete(id);
  }
}

/** Whether events came with ids. Without given ids a repeated append cannot be recognised. */
export function haveIds(writes: readonly StreamWrite[]): boolean {
  for (const { events } of writes) for (const { id } of events) if (id !== undefined) return true;
  return false;
}

function idsOf(writes: readonly StreamWrite[]): string[] {
  return writes.flatMap(({ events }) => events.flatMap(({ id }) => id ?? []));
}

function eventsIn(writes: readonly StreamWrite[]): number {
  return writes.reduce((sum, { events }) => sum + events.length, 0);
}
