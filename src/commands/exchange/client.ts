/** The one who asked, as the exchange sees it. The HTTP side implements it. */
import type { UserPath } from '../../events/event.ts';
import type { Refusal } from '../refusal.ts';
import type { Sight } from '../visibility.ts';

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

/** Who asks, and as whom. Decided by authentication, before the exchange begins. */
export interface Caller {
  readonly actor: 'master' | 'system' | `key:${string}`;
  readonly userPath?: UserPath | undefined;
  readonly authMethod: 'master_key' | 'api_key' | 'no_key';
  /** Which stored objects exist for it. */
  readonly sight: Sight;
  /** What a managed key brings with it; undefined for the master key, and where no key is asked for. */
  readonly key?: CallerKey | undefined;
  /** Of the secret of the managed key that was sent: of two that are accepted, one ends earlier. */
  readonly secretHash?: string | undefined;
  /** Whether a rotation has replaced that secret: it administers nothing during its grace period. */
  readonly hasPreviousSecret?: boolean;
}

export interface CallerKey {
  readonly id: string;
  /** The path the key is bound to. It is then the caller's `userPath`, and the subtree that the key administers. */
  readonly userPath: UserPath | undefined;
  readonly dashboardAccess: boolean;
  /** Canonical selectors; empty: the key itself restricts nothing. */
  readonly allowedModels: readonly string[];
  readonly labels: readonly string[];
}

/** A model request as it came in, its body not yet looked at. */
export interface ModelRequest {
  readonly caller: Caller;
  readonly requestId: string;
  readonly traceparent?: string;
  readonly method: string;
  /** Path and query, credentials redacted. */
  readonly path: string;
  /** Lower-case names, credentials redacted. */
  readonly headers: Record<string, string>;
  readonly clientIp?: string;
  /** Of the key and of tagging headers, each once; undefined when there are none. */
  readonly labels?: readonly string[] | undefined;
  /**
   * What the client calls its session, within its user path. Told by its headers; what a body says of it is filled in
   * once that is parsed.
   */
  sessionId?: string | undefined;
  readonly body: Buffer;
  /** Instead of `body`: what is too large to wait for. Only a passthrough takes it. */
  readonly bodyPieces?: AsyncIterable<Buffer>;
}
