/**
 * Exchanges whose beginning is recorded and whose end is not: the running ones, and those whose end could not be
 * recorded because the log could not be written. The tracker records these ends once the log can be written again.
 */
import type { Position, StreamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import type { RecordedExchange } from '../record/read-exchange.ts';
import type { LeftClient, LeftOpen } from './left-open.ts';

/** @returns the exchanges to resume. @throws LogUnavailable */
export type CloseOpen = (
  streams: readonly StreamName[],
  why: LeftOpen,
  client?: LeftClient,
) => Promise<RecordedExchange[]>;

export interface OpenExchangeTrackerOptions {
  readonly log: EventLog;
  readonly close: CloseOpen;
  /** Resumes an exchange that was left open before any output was recorded. Must not throw. */
  readonly resume: (recorded: RecordedExchange) => void;
  readonly onError: (error: unknown) => void;
  /**
   * Delay in ms before the tracker tries again to record an end while the log reports that it can be written. Default
   * 1000.
   */
  readonly retryMs?: number;
}

const RETRY_MS = 1000;

export class OpenExchangeTracker {
  readonly #options: OpenExchangeTrackerOptions;
  /** Each open exchange with a position before its first event. */
  readonly #open = new Map<StreamName, Position>();
  readonly #leftOpen = new Map<StreamName, LeftClient>();
  #headOfTurn: Position | undefined;
  #closing: Promise<void> = Promise.resolve();
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: OpenExchangeTrackerOptions) {
    this.#options = options;
  }

  /** @param after a position before its first event, for an exchange that is resumed */
  begun(stream: StreamName, after = this.#head()): void {
    this.#open.set(stream, after);
  }

  /** Whether it runs here, or its end is still to be recorded here. */
  isOpen(stream: StreamName): boolean {
    return this.#open.has(stream);
  }

  #head(): Position {
    if (this.#headOfTurn === undefined) {
      this.#headOfTurn = this.#options.log.status().durableHead;
      setImmediate(() => {
        this.#headOfTurn = undefined;
      });
    }
    return this.#headOfTurn;
  }

  /** The exchange is over. An exchange that was left open stays in the set until its end is recorded. */
  over(stream: StreamName): void {
    if (!this.#leftOpen.has(stream)) this.#open.delete(stream);
  }

  /** Called when the end of the exchange could not be recorded. */
  leftOpen(stream: StreamName, client: LeftClient = { wasRefused: false }): void {
    this.#leftOpen.set(stream, client);
    this.#retrySoon();
  }

  /**
   * The log may have recovered before this failure was noted, or an append only timed out: then no recovery is
   * reported.
   */
  #retrySoon(): void {
    if (this.#stopped) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      if (this.#options.log.status().state === 'ok') void this.closeUnfinished();
    }, this.#options.retryMs ?? RETRY_MS).unref();
  }

  /** Closes the exchanges that can be closed; the others are closed at the next start. Never rejects. */
  stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    return this.closeUnfinished();
  }

  /** Every event of every open exchange is after this position. */
  allAfter(): Position {
    let first = this.#options.log.status().durableHead;
    for (const position of this.#open.values()) if (position < first) first = position;
    return first;
  }

  /**
   * Called when the log can be written again. Never rejects: an exchange that cannot be closed is tried again at the
   * next call.
   */
  closeUnfinished(): Promise<void> {
    this.#closing = this.#closing.then(() => this.#closeAll());
    return this.#closing;
  }

  async #closeAll(): Promise<void> {
    for (const [stream, client] of [...this.#leftOpen]) {
      try {
        const [resumable] = await this.#options.close([stream], 'log_unavailable', client);
        this.#leftOpen.delete(stream);
        if (resumable === undefined) this.#open.delete(stream);
        else this.#options.resume(resumable);
      } catch (error) {
        this.#options.onError(error);
        this.#retrySoon();
      }
    }
  }
}
