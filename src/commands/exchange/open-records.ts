/**
 * Which exchanges have begun on the record and have no end there yet: the running ones, and those whose end could not
 * be recorded because the log could not be written. These get it once the log can be written again.
 */
import type { Position, StreamName } from '../../events/event.ts';
import type { WatchableLog } from '../../events/log-status.ts';
import type { LeftOpen } from './close-open-exchanges.ts';
import type { RecordedExchange } from './recorded-exchange.ts';

/** @returns those that are to be taken up again. @throws LogUnavailable */
export type CloseOpen = (streams: readonly StreamName[], why: LeftOpen) => Promise<RecordedExchange[]>;

export interface OpenRecordsOptions {
  readonly log: WatchableLog;
  readonly close: CloseOpen;
  /** Takes up an exchange that was left open before anything was said. Must not throw. */
  readonly resume: (told: RecordedExchange) => void;
  readonly onError: (error: unknown) => void;
}

export class OpenRecords {
  readonly #log: WatchableLog;
  readonly #close: CloseOpen;
  readonly #resume: (told: RecordedExchange) => void;
  readonly #onError: (error: unknown) => void;
  /** In the order they began, each with a position before its first event. */
  readonly #open = new Map<StreamName, Position>();
  readonly #leftOpen = new Set<StreamName>();
  #headOfTurn: Position | undefined;
  #closing: Promise<void> = Promise.resolve();

  constructor(options: OpenRecordsOptions) {
    this.#log = options.log;
    this.#close = options.close;
    this.#resume = options.resume;
    this.#onError = options.onError;
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
        const [resumable] = await this.#close([stream], 'log_unavailable');
        this.#leftOpen.delete(stream);
        if (resumable === undefined) this.#open.delete(stream);
        else this.#resume(resumable);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
