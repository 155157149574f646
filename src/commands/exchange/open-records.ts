/**
 * Which exchanges have begun on the record and have no end there yet: the running ones, and those whose end could not
 * be recorded because the log could not be written. These get it once the log can be written again.
 */
import type { Position, StreamName } from '../../events/event.ts';
import type { WatchableLog } from '../../events/log-status.ts';
import { closeOpenExchanges } from './close-open-exchanges.ts';

export class OpenRecords {
  readonly #log: WatchableLog;
  readonly #onError: (error: unknown) => void;
  /** In the order they began, each with a position before its first event. */
  readonly #open = new Map<StreamName, Position>();
  readonly #leftOpen = new Set<StreamName>();
  #headOfTurn: Position | undefined;
  #closing: Promise<void> = Promise.resolve();

  constructor(log: WatchableLog, onError: (error: unknown) => void) {
    this.#log = log;
    this.#onError = onError;
  }

  begun(stream: StreamName): void {
    if (this.#headOfTurn === undefined) {
      this.#headOfTurn = this.#log.status().durableHead;
      setImmediate(() => {
        this.#headOfTurn = undefined;
      });
    }
    this.#open.set(stream, this.#headOfTurn);
  }

  /** The exchange is over. One that was left open stays so until its end is recorded. */
  over(stream: StreamName): void {
    if (!this.#leftOpen.has(stream)) this.#open.delete(stream);
  }

  /** The end of the exchange could not be recorded. */
  leftOpen(stream: StreamName): void {
    this.#leftOpen.add(stream);
  }

  /** Every event of every open exchange is after this position. */
  allAfter(): Position {
    for (const position of this.#open.values()) return position;
    return this.#log.status().durableHead;
  }

  /** To be called when the log can be written again. Never rejects: what fails is tried again the next time. */
  closeLeftOpen(): Promise<void> {
    this.#closing = this.#closing.then(() => this.#closeAll());
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    for (const stream of [...this.#leftOpen]) {
      try {
        await closeOpenExchanges([stream], this.#log, 'log_unavailable');
        this.#leftOpen.delete(stream);
        this.#open.delete(stream);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
