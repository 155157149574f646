/** The managed keys in memory, for authentication. */
import type { CallerKey } from '../model-request/caller.ts';
import { isSameHash } from './key-secret.ts';

export interface KnownKey extends CallerKey {
  /** Hash of the newest secret. */
  readonly secretHash: string;
  /** The secret before it, accepted until `validUntil`. */
  readonly previousSecret: { readonly secretHash: string; readonly validUntil: number } | undefined;
  /** Whether a request header may name the user path; without effect on a key that is bound to one. */
  readonly userPathHeader: boolean;
  /**
   * Milliseconds since the epoch, like `deactivatedAt`. The key is not accepted from then on; undefined when it never
   * expires.
   */
  readonly expiresAt: number | undefined;
  readonly deactivatedAt: number | undefined;
}

export interface KeyDirectory {
  /** By the hash of the newest secret or the one before. Returns the same object until the key changes. */
  byHash(secretHash: string): KnownKey | undefined;
  byId(id: string): KnownKey | undefined;
}

/** Why a key is not accepted now; undefined when it is. @param now milliseconds since the epoch */
export function whyNotAccepted(
  { deactivatedAt, expiresAt }: Pick<KnownKey, 'deactivatedAt' | 'expiresAt'>,
  now: number,
): 'inactive' | 'expired' | undefined {
  if (deactivatedAt !== undefined) return 'inactive';
  return expiresAt !== undefined && now >= expiresAt ? 'expired' : undefined;
}

/**
 * Why a secret of a key is not accepted now; undefined when it is. Hashes are compared in constant time.
 * @param now milliseconds since the epoch
 */
export function whySecretNotAccepted(
  key: Pick<KnownKey, 'secretHash' | 'previousSecret' | 'deactivatedAt' | 'expiresAt'>,
  secretHash: string,
  now: number,
): 'unknown' | 'inactive' | 'expired' | 'rotated' | undefined {
  const why = whyNotAccepted(key, now);
  if (isSameHash(secretHash, key.secretHash)) return why;
  const { previousSecret } = key;
  if (previousSecret === undefined || !isSameHash(secretHash, previousSecret.secretHash)) return 'unknown';
  return now < previousSecret.validUntil ? why : 'rotated';
}
