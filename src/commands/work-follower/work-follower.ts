/**
 * Queries providers for the state of open work, also without a client: soon at first, then less and less often. It
 * starts with the work in the log, so that a restart loses none.
 */
import type { StreamName } from '../../events/event.ts';
import type { OpenWork } from '../deferred/open-work.ts';

export interface WorkFollowerOptions {
  /** The work that is not over, by the stream of its exchange. */
  readonly open: () => ReadonlyMap<StreamName, OpenWork>;
  /**
   * Checks one of them, and records its cost when it is over.
   * @param isTooOld the provider will not be queried again
   * @returns whether it is over
   */
  readonly look: (work: OpenWork, isTooOld: boolean, signal: AbortSignal) => Promise<boolean>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
  /** Interval in ms at which it checks whether a query is due. Default 250. */
  readonly tickMs?: number;
}

interface Turn {
  dueAt: number;
  pauseMs: number;
}

const TICK_MS = 250;
const FIRST_PAUSE_MS = 1_000;
const GROWTH = 1.5;
const LONGEST_PAUSE_MS = { response: 30_000, batch: 120_000 };
/**
 * A batch may take a day, and its provider some more time to report its end; no provider keeps an unfinished response
 * longer.
 */
const TOO_OLD_MS = { response: 24 * 3600_000, batch: 4 * 24 * 3600_000 };
/** Maximum number of concurrent queries. */
const MAX_CONCURRENT = 4;
/** Pause after the end of work that the projection has not processed yet. */
const OVER_MS = 60_000;

export class WorkFollower {
  readonly #options: WorkFollowerOptions;
  readonly #turns = new Map<StreamName, Turn>();
  readonly #checking = new Map<StreamName, Promise<void>>();
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: WorkFollowerOptions) {
    this.#options = options;
  }

  begin(): void {
    this.#timer = setInterval(() => this.#tick(), this.#options.tickMs ?? TICK_MS);
    this.#timer.unref();
  }

  /** Resolves when no query to a provider is running. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stopping.abort();
    await Promise.all(this.#checking.values());
  }

  #tick(): void {
    const { open, now } = this.#options;
    const works = open();
    if (works.size === 0 && this.#turns.size === 0) return;
    for (const stream of this.#turns.keys()) if (!works.has(stream)) this.#turns.delete(stream);
    const at = now();
    for (const [stream, work] of works) {
      if (this.#checking.size >= MAX_CONCURRENT) return;
      let turn = this.#turns.get(stream);
      if (turn === undefined) {
        turn = { dueAt: Math.max(at, work.since + FIRST_PAUSE_MS), pauseMs: FIRST_PAUSE_MS };
        this.#turns.set(stream, turn);
      }
      if (turn.dueAt > at || this.#checking.has(stream)) continue;
      const checking = this.#check(work, turn).finally(() => this.#checking.delete(stream));
      this.#checking.set(stream, checking);
    }
  }

  async #check(work: OpenWork, turn: Turn): Promise<void> {
    const { look, now, onError } = this.#options;
    let isOver = false;
    try {
      isOver = await look(work, now() - work.since > TOO_OLD_MS[work.kind], this.#stopping.signal);
    } catch (error) {
      if (!this.#stopping.signal.aborted) onError(error);
    }
    turn.pauseMs = Math.min(turn.pauseMs * GROWTH, LONGEST_PAUSE_MS[work.kind]);
    turn.dueAt = now() + (isOver ? OVER_MS : turn.pauseMs);
  }
}
