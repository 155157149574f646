/** Exchanges of gateways whose lease has ended: this gateway ends or resumes those that it inherited. */
import type { Position, StreamName } from '../../../events/event.ts';
import type { RecordedExchange } from '../record/read-exchange.ts';
import type { CloseOpen } from './open-exchange-tracker.ts';

export interface InheritedExchangesOptions {
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

const RETRY_MS = 1000;

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
    const { open, whenProcessed, close, resume, onError, retryMs = RETRY_MS, after = afterMs } = this.#options;
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
