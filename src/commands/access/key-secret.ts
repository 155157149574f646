/** The secret of a managed key: generated once, shown once, and stored only as a hash. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** The prefix of every managed key. A text without it is not looked up. */
export const KEY_PREFIX = 'sk_chy_';
const SECRET_BYTES = 32;

export interface KeySecret {
  /** The whole key, shown only to its owner. */
  readonly value: string;
  readonly secretHash: string;
  readonly lastCharacters: string;
}

export function mintKeySecret(): KeySecret {
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  return { value: `${KEY_PREFIX}${secret}`, secretHash: hashOf(secret), lastCharacters: secret.slice(-4) };
}

/** The hash by which a key is found; undefined for a text that is not a managed key. */
export function secretHashOf(key: string): string | undefined {
  return key.startsWith(KEY_PREFIX) ? hashOf(key.slice(KEY_PREFIX.length)) : undefined;
}

/** SHA-256 as 64 hexadecimal digits. */
function hashOf(secret: string): string {
  return hash('sha256', secret);
}

/** Constant-time comparison. */
export function isSameHash(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one, 'latin1'), Buffer.from(other, 'latin1'));
}
