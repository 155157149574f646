/** The secret of a managed key: made once, shown once, and known here by nothing but its hash. */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** What every managed key begins with. What does not is no managed key, and is not looked for. */
export const KEY_PREFIX = 'sk_chy_';
const SECRET_BYTES = 32;

export interface KeySecret {
  /** The whole key, for its owner alone. */
  readonly value: string;
  readonly secretHash: string;
  readonly lastCharacters: string;
}

export function mintKeySecret(): KeySecret {
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  return { value: `${KEY_PREFIX}${secret}`, secretHash: hashOf(secret), lastCharacters: secret.slice(-4) };
}

/** The hash under which a key is known; undefined for what is no managed key. */
export function secretHashOf(key: string): string | undefined {
  return key.startsWith(KEY_PREFIX) ? hashOf(key.slice(KEY_PREFIX.length)) : undefined;
}

/** SHA-256 as 64 hexadecimal digits. */
function hashOf(secret: string): string {
  return hash('sha256', secret);
}

/** In a time that says nothing of where they differ. */
export function isSameHash(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one, 'latin1'), Buffer.from(other, 'latin1'));
}
