/** The one who asked, as the exchange sees it. The HTTP side implements it. */
import type { Refusal } from '../refusal.ts';

/** Why the exchange is to end early: the reason of the `ended` signal. */
export type EndReason = 'client_gone' | 'gateway_stopping' | 'cancelled';

export interface Client {
  /** Aborted, with an `EndReason`, when nobody waits for the answer any more or the gateway must stop. */
  readonly ended: AbortSignal;
  /** The whole answer at once. */
  answer(status: number, headers: Record<string, string>, body: Uint8Array): void;
  /** Tells of an error: as the answer, or, when one has begun, by cutting it off. */
  refuse(refusal: Refusal, headers: Record<string, string>): void;
  /** Whether `begin` was called. */
  readonly begun: boolean;
  /** Begins an answer whose bytes follow. */
  begin(status: number, headers: Record<string, string>): void;
  /**
   * One piece of the answer. A promise is returned when the client is behind; it resolves when it has caught up, and
   * the exchange reads no more from the provider until then.
   */
  write(bytes: Uint8Array): Promise<void> | undefined;
  end(): void;
}
