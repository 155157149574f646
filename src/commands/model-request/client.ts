/** The client of an exchange. The HTTP side implements it. */
import type { Refusal } from '../refusal.ts';

/** Why the exchange has to end early: the reason of the `ended` signal. */
export type EndReason = 'client_gone' | 'gateway_stopping' | 'cancelled';

export interface StreamKeptOpen {
  readonly headers: Record<string, string>;
  /** The end of a stream without an answer; undefined when its dialect has none. */
  failure(refusal: Refusal): Uint8Array | undefined;
}

export interface Client {
  /** Aborted, with an `EndReason`, when no client waits for the answer any more or the gateway must stop. */
  readonly ended: AbortSignal;
  /** Sends the whole answer. */
  answer(status: number, headers: Record<string, string>, body: Uint8Array): void;
  /** Sends an error: as the answer, at the end of a stream kept open, or, when an answer has begun, by cutting it off. */
  refuse(refusal: Refusal, headers: Record<string, string>): void;
  /** Whether `begin` was called. */
  readonly begun: boolean;
  /**
   * Sends comments of an event stream before an answer has begun. The head of the stream is sent before the first of
   * them; `begin` and `refuse` may still follow.
   */
  keepOpen(comments: Uint8Array, stream: StreamKeptOpen): void;
  /** Whether the client got the head of an event stream by `keepOpen`. */
  readonly isKeptOpen: boolean;
  /** Begins an answer whose bytes follow. */
  begin(status: number, headers: Record<string, string>): void;
  /**
   * Sends one piece of the answer. Returns a promise when the client reads too slowly; it resolves when the client
   * has caught up, and the exchange reads nothing more from the provider until then.
   */
  write(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
}
