/** Appends whose events came with ids, so that a repeated append is recognised. */

import { countEvents, type RecordedEvent } from './event.ts';
import { type Appended, EventIdReused, type EventLog, type StreamWrite, WrongExpectedRevision } from './log.ts';

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
  /** In order; those before `#oldest` are removed. The map is not iterated for them: it keeps holes at its beginning. */
  #appends: RecentAppend<Outcome>[] = [];
  #oldest = 0;
  /** Ids of the appends from `#oldest` on. */
  #kept = 0;
  readonly #limit: number;

  constructor(limit = usualLimit) {
    this.#limit = limit;
  }

  /**
   * The earlier append of these events; undefined when none of their ids is known.
   * @throws EventIdReused when some are, but the append is another one
   */
  find(writes: readonly StreamWrite[]): RecentAppend<Outcome> | undefined {
    return this.#byId.size === 0 ? undefined : this.findIds(idsOf(writes), eventsIn(writes));
  }

  /** As `find`, for an append of that many events, which came with these ids. */
  findIds(ids: readonly string[], events: number): RecentAppend<Outcome> | undefined {
    if (this.#byId.size === 0) return undefined;
    const known = ids.find((id) => this.#byId.has(id));
    if (known === undefined) return undefined;
    const earlier = this.#byId.get(known);
    const same = ids.every((id) => this.#byId.get(id) === earlier) && ids.length === earlier?.ids.length;
    if (!same || earlier.events !== events) throw new EventIdReused(known);
    return earlier;
  }

  add(writes: readonly StreamWrite[], outcome: Outcome): RecentAppend<Outcome> {
    return this.addIds(idsOf(writes), eventsIn(writes), outcome);
  }

  addIds(ids: readonly string[], events: number, outcome: Outcome): RecentAppend<Outcome> {
    const append = { outcome, ids, events };
    for (const id of append.ids) this.#byId.set(id, append);
    this.#appends.push(append);
    this.#kept += append.ids.length;
    while (this.#kept > this.#limit) this.#removeOldest();
    return append;
  }

  remove(append: RecentAppend<Outcome>): void {
    for (const id of append.ids) if (this.#byId.get(id) === append) this.#byId.delete(id);
  }

  #removeOldest(): void {
    const oldest = this.#appends[this.#oldest++];
    if (oldest === undefined) return;
    this.remove(oldest);
    this.#kept -= oldest.ids.length;
    if (this.#oldest < this.#appends.length / 2) return;
    this.#appends = this.#appends.slice(this.#oldest);
    this.#oldest = 0;
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
  return writes.reduce((sum, { events }) => sum + countEvents(events), 0);
}

// Recognises from the recorded events an append that is repeated long after the first time.

/**
 * The result of the first append of these events, when exactly these events are recorded at the revisions of the
 * writes, each of which must expect `noStream` or a number.
 * @param error the error of the repeated append
 * @throws error when they are not recorded there
 */
export async function recordedBefore(
  log: Pick<EventLog, 'readStream'>,
  writes: readonly StreamWrite[],
  error: unknown,
): Promise<Appended> {
  if (!(error instanceof WrongExpectedRevision)) throw error;
  const revisions: bigint[] = [];
  let last: RecordedEvent | undefined;
  for (const write of writes) {
    const first = firstRevision(write);
    if (first === undefined) throw error;
    const events = await eventsFrom(log, write, first);
    if (!write.events.every(({ id }, index) => id !== undefined && id === events[index]?.id)) throw error;
    last = events.at(-1) ?? last;
    revisions.push(first + BigInt(write.events.length) - 1n);
  }
  if (last === undefined) throw error;
  return { position: last.position, revisions };
}

function firstRevision({ expectedRevision }: StreamWrite): bigint | undefined {
  if (expectedRevision === 'noStream') return 0n;
  return typeof expectedRevision === 'bigint' ? expectedRevision + 1n : undefined;
}

async function eventsFrom(
  log: Pick<EventLog, 'readStream'>,
  { stream, events }: StreamWrite,
  fromRevision: bigint,
): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  for await (const event of log.readStream(stream, { fromRevision, maxCount: events.length })) found.push(event);
  return found;
}
