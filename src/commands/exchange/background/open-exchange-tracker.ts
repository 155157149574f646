/**
 * Exchanges whose beginning is recorded and whose end is not: the running ones, and those whose end could not be
 * recorded because the log could not be written. The tracker records these ends once the log can be written again.
 */
import { type Position, type StreamName, streamName } from '../../../events/event.ts';
import { type EventLog, newestEvent } from '../../../events/log.ts';
import { responseCancelled } from '../../model-request/upstream-refusals.ts';
import { Refusal } from '../../refusal.ts';
import type { RecordedExchange } from '../record/read-exchange.ts';

/** Why an exchange was left open, and how it then ends. */
export const endedAs = {
  gateway_stopped: new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'gateway_stopped',
    message: 'The gateway stopped unexpectedly during this exchange.',
  }),
  log_unavailable: new Refusal({
    status: 503,
    type: 'internal_error',
    code: 'log_unavailable',
    message: 'The event log became unavailable during this exchange.',
  }),
  cancelled: responseCancelled(),
};

export type EndedAs = keyof typeof endedAs;

/** Why the exchanges were left open. */
export type LeftOpen = Exclude<EndedAs, 'cancelled'>;

/** What the client of such an exchange got, as far as the record does not tell. */
export interface LeftClient {
  /**
   * An error instead of any answer. The exchange then fails, also with a whole answer on record; no response is stored, and
   * a background response ends as failed.
   */
  readonly wasRefused: boolean;
}

/** The requests to cancel a background response that another gateway generates. */
export function cancellationStream(responseId: string): StreamName {
  return streamName('cancellation', responseId);
}

/** Whether a client has cancelled the response through another gateway than the one that generated it. */
export async function wasCancelled(responseId: string, log: Pick<EventLog, 'readStream'>): Promise<boolean> {
  return (await newestEvent(cancellationStream(responseId), log)) !== undefined;
}

/** @returns the exchanges to resume. @throws LogUnavailable */
type CloseOpen = (streams: readonly StreamName[], why: LeftOpen, client?: LeftClient) => Promise<RecordedExchange[]>;

interface OpenExchangeTrackerOptions {
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
/** How long a position of the end of the log is used for the exchanges that begin. */
const HEAD_MS = 1000;

export class OpenExchangeTracker {
  readonly #options: OpenExchangeTrackerOptions;
  /** Each open exchange with a position before its first event. */
  readonly #open = new Map<StreamName, Position>();
  readonly #leftOpen = new Map<StreamName, LeftClient>();
  /** The end of the log as it was read last; exchanges that begin afterwards have their events behind it. */
  #head: Position | undefined;
  #headReadAt = 0;
  #closing: Promise<void> = Promise.resolve();
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: OpenExchangeTrackerOptions) {
    this.#options = options;
  }

  /** @param after a position before its first event, for an exchange that is resumed */
  begun(stream: StreamName, after?: Position): void {
    const now = performance.now();
    if (this.#head === undefined || now - this.#headReadAt > HEAD_MS) {
      this.#head = this.#options.log.status().durableHead;
      this.#headReadAt = now;
    }
    this.#open.set(stream, after ?? this.#head);
  }

  /** Whether it runs here, or its end is still to be recorded here. */
  isOpen(stream: StreamName): boolean {
    return this.#open.has(stream);
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

// Exchanges of gateways whose lease has ended: this gateway ends or resumes those that it inherited.

interface InheritedExchangesOptions {
  /** The open exchanges that this gateway has inherited and that do not run here, up to what was read of the log. */
  readonly open: () => Iterable<StreamName>;
  readonly whenProcessed: (position: Position) => Promise<void>;
  readonly close: CloseOpen;
  /** Resumes an exchange. Must not throw. */
  readonly resume: (recorded: RecordedExchange) => void;
  readonly onError: (error: unknown) => void;
  /** Delay before exchanges are tried again that could not be ended. Default 1000. */
  readonly retryMs?: number;
  /** Calls once, unless the function that it returns is called before. Default: `setTimeout`. */
  readonly after?: (ms: number, work: () => void) => () => void;
}

const INHERITED_RETRY_MS = 1000;

export class InheritedExchanges {
  readonly #options: InheritedExchangesOptions;
  /** Inherited before `begin`. */
  #earlier: Position | undefined;
  #hasBegun = false;
  #running: Promise<void> = Promise.resolve();
  #cancelRetry: (() => void) | undefined;
  #stopped = false;

  constructor(options: InheritedExchangesOptions) {
    this.#options = options;
  }

  /** To be called when the exchanges that were inherited at the start run here. */
  begin(): void {
    this.#hasBegun = true;
    if (this.#earlier !== undefined) void this.take(this.#earlier);
  }

  /** Ends or resumes what was inherited up to this position. Never rejects; what fails is tried again. */
  take(position: Position): Promise<void> {
    if (!this.#hasBegun) {
      this.#earlier = position;
      return Promise.resolve();
    }
    this.#running = this.#running.then(() => this.#take(position));
    return this.#running;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelRetry?.();
    await this.#running;
  }

  async #take(position: Position): Promise<void> {
    const {
      open,
      whenProcessed,
      close,
      resume,
      onError,
      retryMs = INHERITED_RETRY_MS,
      after = afterMs,
    } = this.#options;
    if (this.#stopped) return;
    try {
      await whenProcessed(position);
      for (const recorded of await close([...open()], 'gateway_stopped')) resume(recorded);
    } catch (error) {
      onError(error);
      if (!this.#stopped) this.#cancelRetry = after(retryMs, () => void this.take(position));
    }
  }
}

function afterMs(ms: number, work: () => void): () => void {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
}
