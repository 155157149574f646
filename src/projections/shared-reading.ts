/**
 * Projections that start together, and from the same position, read the existing log together: each event is fetched
 * and decoded once for all of them. After that each follows the log by itself.
 */
import type { Position, RecordedEvent } from '../events/event.ts';
import { CompiledFilter, type EventFilter, type EventLog } from '../events/log.ts';

export interface Member {
  /** Exclusive. */
  readonly after: Position;
  readonly filter: EventFilter;
  /** Every event of the filter, in the log's order. One that throws gets no further ones. */
  take(event: RecordedEvent): void;
}

interface WaitingMember {
  readonly member: Member;
  readonly resolve: (position: Position) => void;
  readonly reject: (error: unknown) => void;
}

export class SharedReading {
  readonly #log: EventLog;
  readonly #signal: AbortSignal;
  #expected = 0;
  #waiting: WaitingMember[] = [];

  constructor(log: EventLog, signal: AbortSignal) {
    this.#log = log;
    this.#signal = signal;
  }

  /** Announces one later `join` or `leave`. The reading begins when all announced calls have been made. */
  expect(): void {
    this.#expected += 1;
  }

  leave(): void {
    this.#expected -= 1;
    if (this.#expected > 0) return;
    const together = Map.groupBy(this.#waiting.splice(0), ({ member }) => member.after);
    for (const [after, readers] of together) void this.#read(after, readers);
  }

  /**
   * Resolves with the position up to which every event was taken: for a member that reads alone, its own `after`.
   * @throws what `take` threw, or the log, or AbortError when the signal is aborted
   */
  join(member: Member): Promise<Position> {
    const { promise, resolve, reject } = Promise.withResolvers<Position>();
    this.#waiting.push({ member, resolve, reject });
    this.leave();
    return promise;
  }

  async #read(after: Position, readers: readonly WaitingMember[]): Promise<void> {
    const sharing = readers.filter(({ member: { filter } }) => filter.types !== undefined);
    const alone = sharing.length < 2 ? readers : readers.filter((one) => !sharing.includes(one));
    for (const { resolve } of alone) resolve(after);
    if (alone.length === readers.length) return;
    try {
      const head = await this.#log.head();
      await this.#dispatch(after, new Set(sharing));
      this.#signal.throwIfAborted();
      for (const { resolve } of sharing) resolve(head > after ? head : after);
    } catch (error) {
      for (const { reject } of sharing) reject(error);
    }
  }

  async #dispatch(after: Position, sharing: Set<WaitingMember>): Promise<void> {
    const types = [...new Set([...sharing].flatMap(({ member }) => member.filter.types ?? []))];
    const filters = new Map([...sharing].map((one) => [one, new CompiledFilter(one.member.filter)] as const));
    const takers = new Map<string, WaitingMember[]>();
    for await (const event of this.#log.readAll({ after, filter: { types }, signal: this.#signal })) {
      let wanting = takers.get(event.type);
      if (wanting === undefined) {
        wanting = [...sharing].filter((one) => filters.get(one)?.acceptsType(event.type));
        takers.set(event.type, wanting);
      }
      for (const one of wanting) {
        if (!(sharing.has(one) && filters.get(one)?.acceptsStream(event.stream))) continue;
        try {
          one.member.take(event);
        } catch (error) {
          sharing.delete(one);
          one.reject(error);
        }
      }
    }
  }
}
