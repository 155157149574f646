/** The managed keys in memory, for authentication, and the secrets of keys. */

import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Actor, UserPath } from '../../events/event.ts';
import type { CallerKey } from '../model-request/model-request.ts';
import { type Owner, type VisibilityScope, visibilityOf } from '../visibility.ts';

export interface KnownKey extends CallerKey {
  /** Hash of the newest secret. */
  readonly secretHash: string;
  /** The secret before it, accepted until `validUntil`. */
  readonly previousSecret: { readonly secretHash: string; readonly validUntil: number } | undefined;
  /** Whether a request header may name the user path; without effect on a key that is bound to one. */
  readonly userPathHeader: boolean;
  /** Networks of the clients that may use the key; empty: all. */
  readonly allowedCidrs: readonly string[];
  /**
   * Milliseconds since the epoch, like `deactivatedAt`. The key is not accepted from then on; undefined when it never
   * expires.
   */
  readonly expiresAt: number | undefined;
  readonly deactivatedAt: number | undefined;
}

/** The secrets of other gateways, also those that were rotated away; undefined while there was none. */
export interface ImportedSecrets {
  /** What the secrets begin with that their hashes leave out. */
  readonly prefixes: ReadonlySet<string>;
  /** By stored hash: the place of its key in the order in which such keys were created. */
  readonly turns: ReadonlyMap<string, number>;
}

export interface KeyDirectory {
  /** By the hash of the newest secret or the one before. Returns the same object until the key changes. */
  byHash(secretHash: string): KnownKey | undefined;
  readonly imported: ImportedSecrets | undefined;
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

// The secret of a managed key: generated once, shown once, and stored only as a hash.

/** The prefix of every secret that this gateway makes. */
export const KEY_PREFIX = 'sk_chy_';
const SECRET_BYTES = 32;

interface KeySecret {
  /** The whole key, shown only to its owner. */
  readonly value: string;
  readonly secretHash: string;
  readonly lastCharacters: string;
}

export function mintKeySecret(): KeySecret {
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  return { value: `${KEY_PREFIX}${secret}`, secretHash: hashOf(secret), lastCharacters: secret.slice(-4) };
}

/**
 * The hash by which a key is found; undefined for a text that is not a managed key. Hashes that leave out different prefixes
 * can be of one secret: the one imported first decides, whatever became of its key, so that no other key takes the secret
 * over. A key of this gateway comes before them.
 */
export function secretHashOf(
  key: string,
  { byHash, imported }: Pick<KeyDirectory, 'byHash' | 'imported'>,
): string | undefined {
  const own = key.startsWith(KEY_PREFIX) ? hashOf(key.slice(KEY_PREFIX.length)) : undefined;
  if (imported === undefined || (own !== undefined && byHash(own) !== undefined)) return own;
  let found = own;
  let first = Number.POSITIVE_INFINITY;
  for (const prefix of imported.prefixes) {
    if (!key.startsWith(prefix)) continue;
    const hash = importedHash(prefix, hashOf(key.slice(prefix.length)));
    const turn = imported.turns.get(hash) ?? first;
    if (turn < first) [found, first] = [hash, turn];
  }
  return found;
}

// The keys of other gateways, of which only the hashes are known: SHA-256 of the key, or of the key without a prefix. The
// prefix is a part of the stored hash, so that no other text is accepted for such a key.

export function importedHash(prefix: string, sha256: string): string {
  return `${prefix}:${sha256}`;
}

/** The same id for the same hash, so that the stream of the key decides whether the hash is in use. A UUID in form. */
export function importedKeyId(secretHash: string): string {
  const digits = createHash('sha256').update(`imported key ${secretHash}`).digest('hex');
  return digits.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
}

/** SHA-256 as 64 hexadecimal digits. */
function hashOf(secret: string): string {
  return hash('sha256', secret);
}

/** Constant-time comparison. */
function isSameHash(one: string, other: string): boolean {
  return one.length === other.length && timingSafeEqual(Buffer.from(one, 'latin1'), Buffer.from(other, 'latin1'));
}

/** The caller of a recorded request, for work that continues after a restart or that another caller triggers. */
interface RecordedCaller {
  readonly actor: Actor;
  readonly userPath: UserPath | undefined;
  /** The id of a managed key; undefined for the master key. */
  readonly keyId: string | undefined;
  /** The key in its current state. Keys are never deleted, so it exists unless the log lost it. */
  readonly key: KnownKey | undefined;
  readonly visibility: VisibilityScope;
}

export function recordedCaller(
  { createdBy: actor, userPath }: Owner,
  keys: Pick<KeyDirectory, 'byId'>,
): RecordedCaller {
  const keyId = actor.startsWith('key:') ? actor.slice('key:'.length) : undefined;
  const key = keyId === undefined ? undefined : keys.byId(keyId);
  return { actor, userPath, keyId, key, visibility: visibilityOf({ actor, userPath, key }) };
}
