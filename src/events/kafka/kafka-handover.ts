import type { EachBatchPayload, KafkaMessage } from 'kafkajs';
import { EngineUnavailable } from '../replicated/engine.ts';

/** One batch at a time from kafkajs to the reader. */
export class Handover {
  readonly #signal: AbortSignal;
  readonly #heartbeatMs: number;
  #given: readonly KafkaMessage[] | undefined;
  #failure: unknown;
  #ended = false;
  #changed = Promise.withResolvers<void>();

  constructor(signal: AbortSignal, heartbeatMs: number) {
    this.#heartbeatMs = heartbeatMs;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#change(), { once: true });
  }

  /** Resolves when the reader has taken the batch. Meanwhile the reader stays a member of its group. */
  async give({ batch, heartbeat }: EachBatchPayload): Promise<void> {
    if (batch.messages.length === 0 || this.#failure !== undefined) return;
    this.#given = batch.messages;
    this.#change();
    while (this.#given !== undefined && !this.#ended && !this.#signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, this.#heartbeatMs);
      await Promise.race([this.#changed.promise, promise]);
      clearTimeout(timer);
      if (this.#given !== undefined) await heartbeat();
    }
  }

  /** Undefined at the end. */
  async take(): Promise<readonly KafkaMessage[] | undefined> {
    for (;;) {
      if (this.#signal.aborted) return undefined;
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#ended) throw new EngineUnavailable('the connection to Kafka has been closed', 'none');
      const given = this.#given;
      if (given !== undefined) {
        this.#given = undefined;
        this.#change();
        return given;
      }
      await this.#changed.promise;
    }
  }

  /** Rejects with the failure, and resolves at the end of the signal, also when the promise does neither. */
  async orEnd(promise: Promise<void>): Promise<void> {
    let isSettled = false;
    promise.then(
      () => {
        isSettled = true;
        this.#change();
      },
      (error: unknown) => this.fail(error),
    );
    while (!isSettled && !this.#signal.aborted && this.#failure === undefined) await this.#changed.promise;
    if (this.#failure !== undefined && !this.#signal.aborted) throw this.#failure;
  }

  /** Fails when the function throws. */
  failOn(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    this.#failure ??= error;
    this.#change();
  }

  end(): void {
    this.#ended = true;
    this.#change();
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
