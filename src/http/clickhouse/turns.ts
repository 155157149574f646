/**
 * Queues queries when more arrive than may be executed at once. A few are active at a time, in the order of arrival. A
 * query that takes long makes room: it continues in one of the places for slow queries; when these are taken and others
 * wait, it is ended. So no query waits longer than `slowAfterMs` for each `quick` queries ahead, however slow those
 * are.
 */
import { type ClickHouseException, clickHouseError } from './embedded-clickhouse.ts';

export interface TurnLimits {
  /** Concurrent queries, beside the slow ones. */
  readonly quick: number;
  /** Slow queries that continue beside the others. */
  readonly slow: number;
  readonly slowAfterMs: number;
  /** Limit of waiting queries; further ones are refused. */
  readonly waiting: number;
}

export interface QueryTurn {
  /** Aborted when the query must end because others wait. */
  readonly preempted: AbortSignal;
  end(): void;
}

interface Running {
  readonly preempt: AbortController;
  place: 'quick' | 'slow' | 'none';
  isLate: boolean;
}

export class QueryTurns {
  readonly #limits: TurnLimits;
  /** In the order in which they began. */
  readonly #running = new Set<Running>();
  readonly #waiting = new Set<(turn: QueryTurn) => void>();

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  /** @param gone aborted when the client has disconnected. @throws ClickHouseException 202, or 394 when disconnected */
  async enter(gone: AbortSignal): Promise<QueryTurn> {
    if (gone.aborted) throw left();
    if (this.#count('quick') < this.#limits.quick) return this.#begin();
    if (this.#waiting.size >= this.#limits.waiting) throw tooMany(this.#waiting.size);
    const entered = Promise.withResolvers<QueryTurn>();
    const leave = () => {
      this.#waiting.delete(entered.resolve);
      entered.reject(left());
    };
    gone.addEventListener('abort', leave, { once: true });
    this.#waiting.add(entered.resolve);
    this.#startWaiting();
    try {
      return await entered.promise;
    } finally {
      gone.removeEventListener('abort', leave);
    }
  }

  #begin(): QueryTurn {
    const running: Running = { preempt: new AbortController(), place: 'quick', isLate: false };
    this.#running.add(running);
    const late = setTimeout(() => {
      running.isLate = true;
      this.#startWaiting();
    }, this.#limits.slowAfterMs);
    return {
      preempted: running.preempt.signal,
      end: () => {
        clearTimeout(late);
        running.place = 'none';
        this.#running.delete(running);
        this.#startWaiting();
      },
    };
  }

  /** Moves late queries to slow places, admits waiting ones, and ends one late query for each that still waits. */
  #startWaiting(): void {
    const late = [...this.#running].filter(({ place, isLate }) => place === 'quick' && isLate);
    for (const running of late) {
      if (this.#count('slow') >= this.#limits.slow) break;
      running.place = 'slow';
    }
    for (const enter of this.#waiting) {
      if (this.#count('quick') >= this.#limits.quick) break;
      this.#waiting.delete(enter);
      enter(this.#begin());
    }
    const preempted = late.filter(({ place }) => place === 'quick').slice(0, this.#waiting.size);
    for (const { preempt } of preempted) preempt.abort();
  }

  #count(place: Running['place']): number {
    let count = 0;
    for (const running of this.#running) if (running.place === place) count += 1;
    return count;
  }
}

function left(): ClickHouseException {
  return clickHouseError(394, 'QUERY_WAS_CANCELLED', 'the client has left');
}

function tooMany(waiting: number): ClickHouseException {
  return clickHouseError(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', `${waiting} queries wait already; ask again later`);
}

/**
 * Complete answers that their clients have not read yet. They use no place of an active query, and their total size is
 * limited: an answer that is not read in time, or whose bytes are needed for a newer one, is cut off.
 */
export interface UnreadLimits {
  /** Limit of all answers together. A single one may be larger. */
  readonly bytes: number;
  /** Time limit of one answer. */
  readonly ms: number;
}

interface Unread {
  readonly bytes: number;
  abort(): void;
}

export class UnreadAnswers {
  readonly #limits: UnreadLimits;
  /** The oldest first. */
  readonly #answers = new Set<Unread>();
  #bytes = 0;

  constructor(limits: UnreadLimits) {
    this.#limits = limits;
  }

  /** @param send resolves when the client has read the answer or is gone. @param abort makes `send` settle soon */
  async during(bytes: number, abort: () => void, send: () => Promise<void>): Promise<void> {
    const unread: Unread = { bytes, abort };
    for (const older of this.#answers) {
      if (this.#bytes + bytes <= this.#limits.bytes) break;
      this.#remove(older);
      older.abort();
    }
    this.#answers.add(unread);
    this.#bytes += bytes;
    const late = setTimeout(abort, this.#limits.ms);
    try {
      await send();
    } finally {
      clearTimeout(late);
      this.#remove(unread);
    }
  }

  #remove(unread: Unread): void {
    if (this.#answers.delete(unread)) this.#bytes -= unread.bytes;
  }
}
