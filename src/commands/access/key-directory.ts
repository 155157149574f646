/** The managed keys as authentication asks for them: from memory. */

import type { CallerKey } from '../model-request/caller.ts';
import { isSameHash } from './key-secret.ts';

export interface KnownKey extends CallerKey {
  /** Of the newest secret. */
  readonly secretHash: string;
  /** The one before it, which is accepted until its time. */
  readonly previousSecret: { readonly secretHash: string; readonly validUntil: number } | undefined;
  /** Whether a request header may name the user path; without effect on a key that is bound to one. */
  readonly userPathHeader: boolean;
  /** Milliseconds since the epoch, as `deactivatedAt`. From then on it is not accepted; undefined: for ever. */
  readonly expiresAt: number | undefined;
  readonly deactivatedAt: number | undefined;
}

export interface KeyDirectory {
  /** The same object until something about the key changes. */
  /** By the newest secret, or the one before it. */
  byHash(secretHash: string): KnownKey | undefined;
  byId(id: string): KnownKey | undefined;
}

/** Why a key is not accepted at this moment; undefined when it is. @param now milliseconds since the epoch */
export function whyNotAccepted(
  { deactivatedAt, expiresAt }: Pick<KnownKey, 'deactivatedAt' | 'expiresAt'>,
  now: number,
): 'inactive' | 'expired' | undefined {
  if (deactivatedAt !== undefined) return 'inactive';
  return expiresAt !== undefined && now >= expiresAt ? 'expired' : undefined;
}

/**
 * Why a secret of a key is not accepted at this moment; undefined when it is. Hashes are compared in constant time.
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
