/** Calls the hook `complete` of a plugin for exchanges that ended. Requests do not wait for it. */
import type { EndedExchange } from './api/plugin.ts';
import type { LoadedPlugin } from './load-plugins.ts';

/** Exchanges that wait for the hook. Further ones are counted, and the hook is not called for them. */
export const MAX_WAITING = 1_000;
/** Calls at the same time. */
const MAX_RUNNING = 4;
/** Milliseconds that a stop of the gateway waits for the calls. */
const STOP_MS = 2_000;

export class CompletedExchanges {
  readonly #plugin: Pick<LoadedPlugin, 'host' | 'entry' | 'config'>;
  readonly #waiting: EndedExchange[] = [];
  #running = 0;
  #dropped = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(plugin: Pick<LoadedPlugin, 'host' | 'entry' | 'config'>) {
    this.#plugin = plugin;
  }

  /** Exchanges for which the hook was not called. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Never throws. */
  add(exchange: EndedExchange): void {
    if (this.#waiting.length >= MAX_WAITING) this.#dropped += 1;
    else this.#waiting.push(exchange);
    if (this.#running < MAX_RUNNING) void this.#run();
  }

  /** Resolves when the hook was called for all, or after a moment; the rest is counted as dropped. */
  async drain(): Promise<void> {
    if (this.#running > 0) {
      this.#idle = Promise.withResolvers();
      const timer = setTimeout(this.#idle.resolve, STOP_MS);
      await this.#idle.promise;
      clearTimeout(timer);
    }
    this.#dropped += this.#waiting.splice(0).length;
  }

  async #run(): Promise<void> {
    const { host, entry, config } = this.#plugin;
    this.#running += 1;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const { requestId, userPath, labels, model = '', provider = '' } = next;
      const context = { requestId, userPath, model, provider, labels };
      const call = { hook: 'complete' as const, input: next, context, config, deadlineMs: entry.timeoutMs };
      // The host counts failures.
      await host.call(call).catch(() => {});
    }
    this.#running -= 1;
    if (this.#running === 0) this.#idle?.resolve();
  }
}
