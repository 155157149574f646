/** A client for whose answer other requests wait. */
import type { Client, StreamKeptOpen } from '../../model-request/client.ts';
import type { Refusal } from '../../refusal.ts';

/** Longer than a client needs that reads. */
const STALLED_MS = 1_000;

/** Reports a client that does not read: requests that wait for its answer must not wait for it. */
export class WatchedClient implements Client {
  readonly #client: Client;
  readonly #stalled: () => void;

  /** @param stalled called when a piece of the answer was not accepted within a second */
  constructor(client: Client, stalled: () => void) {
    this.#client = client;
    this.#stalled = stalled;
  }

  get ended(): AbortSignal {
    return this.#client.ended;
  }

  get begun(): boolean {
    return this.#client.begun;
  }

  answer(status: number, headers: Record<string, string>, body: Uint8Array): void {
    this.#client.answer(status, headers, body);
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    this.#client.refuse(refusal, headers);
  }

  keepOpen(comments: Uint8Array, stream: StreamKeptOpen): void {
    this.#client.keepOpen(comments, stream);
  }

  get isKeptOpen(): boolean {
    return this.#client.isKeptOpen;
  }

  begin(status: number, headers: Record<string, string>): void {
    this.#client.begin(status, headers);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    const accepted = this.#client.write(bytes);
    if (accepted === undefined) return undefined;
    const timer = setTimeout(this.#stalled, STALLED_MS);
    timer.unref();
    return accepted.finally(() => clearTimeout(timer));
  }

  end(): void {
    this.#client.end();
  }
}
