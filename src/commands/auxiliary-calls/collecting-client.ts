/** The client of an exchange that the gateway itself runs: it keeps the answer in memory. */
import type { Client, EndReason } from '../model-request/client.ts';
import { Refusal } from '../refusal.ts';

export interface CollectedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The whole body, or the refusal in its place. */
  readonly content: Uint8Array | Refusal;
}

/** The size of the answer is bounded by the exchange. */
export class CollectingClient implements Client {
  readonly #controller = new AbortController();
  readonly #answered = Promise.withResolvers<CollectedAnswer>();

  get ended(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves with the first answer or error. */
  get whenAnswered(): Promise<CollectedAnswer> {
    return this.#answered.promise;
  }

  readonly begun = false;

  endEarly(reason: EndReason): void {
    if (!this.#controller.signal.aborted) this.#controller.abort(reason);
  }

  answer(status: number, headers: Record<string, string>, content: Uint8Array): void {
    this.#answered.resolve({ status, headers, content });
  }

  refuse(content: Refusal, headers: Record<string, string>): void {
    this.#answered.resolve({ status: content.status, headers, content });
  }

  /** A stream was not requested: the exchange ends. */
  begin(status: number, headers: Record<string, string>): void {
    const message = 'the answer is a stream, which was not requested';
    const refusal = new Refusal({ status: 502, type: 'provider_error', code: null, message });
    this.#answered.resolve({ status, headers, content: refusal });
    this.endEarly('cancelled');
  }

  write(): undefined {}

  end(): void {}
}
