/** The managed keys as authentication asks for them: from memory. */
import type { CallerKey } from '../exchange/client.ts';

export interface KnownKey extends CallerKey {
  readonly secretHash: string;
  /** Whether a request header may name the user path; without effect on a key that is bound to one. */
  readonly userPathHeader: boolean;
  /** Milliseconds since the epoch, as `deactivatedAt`. From then on it is not accepted; undefined: for ever. */
  readonly expiresAt: number | undefined;
  readonly deactivatedAt: number | undefined;
}

export interface KeyDirectory {
  /** The same object until something about the key changes. */
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
