/**
 * Exchanges that continue when their client leaves: background responses, and requests with an idempotency key, whose
 * answer a retry can fetch. They end early only when they are cancelled or the gateway stops.
 */
import type { Client, EndReason, StreamKeptOpen } from '../../model-request/model-request.ts';
import type { Refusal } from '../../refusal.ts';

export class DetachedClients {
  readonly #all = new Set<DetachedClient>();
  readonly #byResponse = new Map<string, DetachedClient>();

  /** @param responseId id of a background response, by which it can be cancelled until `over` is called */
  detach(client: Client, responseId?: string): DetachedClient {
    const detached = client instanceof DetachedClient ? client : this.#detached(client);
    if (responseId !== undefined) this.#byResponse.set(responseId, detached);
    return detached;
  }

  #detached(client: Client): DetachedClient {
    const detached = new DetachedClient(client, () => this.#all.delete(detached));
    this.#all.add(detached);
    return detached;
  }

  /** Called when the end of a background response is recorded. */
  over(responseId: string): void {
    this.#byResponse.get(responseId)?.over();
    this.#byResponse.delete(responseId);
  }

  /**
   * Ends a background response that this gateway generates. Resolves when its end is recorded; undefined when it does
   * not generate it.
   */
  cancel(responseId: string): Promise<void> | undefined {
    const running = this.#byResponse.get(responseId);
    running?.endEarly('cancelled');
    return running?.whenOver;
  }

  /** The gateway stops without waiting for the exchanges. */
  cut(): void {
    for (const client of this.#all) client.endEarly('gateway_stopping');
  }
}

export class DetachedClient implements Client {
  readonly #listener: Client;
  readonly #controller = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  readonly #forget: () => void;
  readonly #stopped: () => void;
  #answered = false;

  constructor(listener: Client, forget: () => void) {
    this.#listener = listener;
    this.#forget = forget;
    this.#stopped = () => {
      if (listener.ended.reason === 'gateway_stopping') this.endEarly('gateway_stopping');
    };
    if (listener.ended.aborted) this.#stopped();
    else listener.ended.addEventListener('abort', this.#stopped, { once: true });
  }

  get ended(): AbortSignal {
    return this.#controller.signal;
  }

  get begun(): boolean {
    return this.#answered || this.#listener.begun;
  }

  /** Resolves when the exchange is over. */
  get whenOver(): Promise<void> {
    return this.#over.promise;
  }

  endEarly(reason: EndReason): void {
    if (!this.#controller.signal.aborted) this.#controller.abort(reason);
  }

  over(): void {
    this.#listener.ended.removeEventListener('abort', this.#stopped);
    this.#forget();
    this.#over.resolve();
  }

  /** A client that already has its answer, such as the queued response, gets nothing more. */
  answer(status: number, headers: Record<string, string>, body: Uint8Array): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#listener.answer(status, headers, body);
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#listener.refuse(refusal, headers);
  }

  keepOpen(comments: Uint8Array, stream: StreamKeptOpen): void {
    if (!this.begun) this.#listener.keepOpen(comments, stream);
  }

  get isKeptOpen(): boolean {
    return this.#listener.isKeptOpen;
  }

  begin(status: number, headers: Record<string, string>): void {
    this.#listener.begin(status, headers);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    return this.#listener.write(bytes);
  }

  end(): void {
    if (!this.#answered) this.#listener.end();
  }
}

/** The client of an exchange that continues after a restart: it receives nothing. */
export const nullClient: Client = {
  ended: new AbortController().signal,
  begun: false,
  isKeptOpen: false,
  answer() {},
  refuse() {},
  keepOpen() {},
  begin() {},
  write: () => undefined,
  end() {},
};
