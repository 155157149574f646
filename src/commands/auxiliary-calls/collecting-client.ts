/** The client of an exchange that the gateway itself runs: it keeps the answer in memory. */
import type { Client, EndReason } from '../model-request/client.ts';
import { Refusal } from '../refusal.ts';

/** The size of the answer is bounded by the exchange. */
export class CollectingClient implements Client {
  readonly #controller = new AbortController();
  readonly #answered = Promise.withResolvers<Uint8Array | Refusal>();

  get ended(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves with the whole body, or with the refusal in its place. */
  get whenAnswered(): Promise<Uint8Array | Refusal> {
    return this.#answered.promise;
  }

  readonly begun = false;
  readonly isKeptOpen = false;

  endEarly(reason: EndReason): void {
    if (!this.#controller.signal.aborted) this.#controller.abort(reason);
  }

  answer(_status: number, _headers: Record<string, string>, body: Uint8Array): void {
    this.#answered.resolve(body);
  }

  refuse(refusal: Refusal): void {
    this.#answered.resolve(refusal);
  }

  keepOpen(): void {}

  /** A stream was not requested: the exchange ends. */
  begin(): void {
    const message = 'the answer is a stream, which was not requested';
    this.#answered.resolve(new Refusal({ status: 502, type: 'provider_error', code: null, message }));
    this.endEarly('cancelled');
  }

  write(): undefined {}

  end(): void {}
}
