import type { UserPath } from '../events/event.ts';

/** A replaced secret, which is accepted until `validUntil`. */
export interface PreviousSecret {
  readonly secretHash: string;
  /** Milliseconds since the epoch. The secret is kept after that, so that its use is not reported as an unknown key. */
  readonly validUntil: number;
}

/** One flat record for each key, since there may be very many. It is replaced, never changed. */
export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly description: string | undefined;
  readonly userPath: UserPath | undefined;
  readonly labels: readonly string[];
  readonly allowedModels: readonly string[];
  readonly dashboardAccess: boolean;
  /** Whether a request header may name the user path. */
  readonly userPathHeader: boolean;
  /** SHA-256 of the secret, in hexadecimal. */
  readonly secretHash: string;
  readonly lastCharacters: string;
  /** The secret before the newest one; undefined when there is none, or when a deactivation removed it. */
  readonly previousSecret: PreviousSecret | undefined;
  /** Milliseconds since the epoch, like all times here. */
  readonly expiresAt: number | undefined;
  readonly deactivatedAt: number | undefined;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of its newest event. */
  readonly revision: number;
}
