/**
 * The limits of what an administrator may give to a key: never more than its own key has, and nothing that a higher
 * administrator forbids.
 */
import type { UserPath } from '../../events/event.ts';
import { type Authority, bindingValue, type ValuesByAdministrator } from '../access/authority.ts';
import { covers } from '../access/selector.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { subtreeOf } from '../visibility.ts';

/** The administrator who creates or changes a key. */
export interface KeyAdministrator {
  readonly authority: Authority;
  /** The key of the caller; undefined for the master key. */
  readonly key: AdministeringKey | undefined;
}

/** The access that a secret gives. */
export interface KeyAccess {
  readonly userPath: UserPath | undefined;
  readonly allowedModels: readonly string[];
  readonly userPathHeader: boolean;
  /** Milliseconds since the epoch; undefined when it never expires. */
  readonly expiresAt: number | undefined;
}

/** The upper limit for a new key, or for a new secret of a key. */
export interface AdministeringKey extends KeyAccess {
  readonly id: string;
  /** Of its last event. */
  readonly revision: number;
}

/** A change of the key `id`. */
export interface ByAdministrator {
  readonly id: string;
  readonly by: KeyAdministrator;
}

/** The value that a higher administrator set on the caller's own key. */
export function bindingOwnValue<Value>(
  values: ValuesByAdministrator<Value>,
  { id, by }: ByAdministrator,
): Value | undefined {
  return by.key?.id === id ? bindingValue(values, by.authority) : undefined;
}

/**
 * A key never gives more models than it has itself. It may shorten a list, and restore what a higher administrator
 * gave.
 */
export function widerThanAllowed(
  requested: readonly string[],
  allowedModels: readonly string[],
  values: ValuesByAdministrator<readonly string[]>,
  { id, by: { key, authority } }: ByAdministrator,
): Refusal | undefined {
  if (key === undefined || covers(allowedModels, requested)) return undefined;
  const bound = bindingValue(values, authority);
  if (bound !== undefined && covers(bound, requested)) return undefined;
  if (key.id !== id) return covers(key.allowedModels, requested) ? undefined : beyondModels(key);
  return bound === undefined
    ? beyondModels(key)
    : refusals.setByHigherAdministrator(`The list of models of key ${id}`, JSON.stringify(bound));
}

/** The same rule for the expiry. @param values with `null` for a key that never expires */
export function laterThanAllowed(
  requested: number | undefined,
  expiresAt: number | undefined,
  values: ValuesByAdministrator<number | null>,
  { id, by: { key, authority } }: ByAdministrator,
): Refusal | undefined {
  if (key === undefined || !isLater(requested, expiresAt)) return undefined;
  const bound = bindingValue(values, authority);
  if (bound !== undefined && !isLater(requested, bound ?? undefined)) return undefined;
  if (key.id !== id) return isLater(requested, key.expiresAt) ? beyondExpiry(key) : undefined;
  return bound === undefined || bound === null
    ? beyondExpiry(key)
    : refusals.setByHigherAdministrator(`The expiry of key ${id}`, timeOf(bound));
}

/** The refusal when a new key would have more access than the key that creates it. */
export function beyondCreator(requested: KeyAccess, creator: AdministeringKey): Refusal | undefined {
  const scope = subtreeOf(creator);
  if (scope !== undefined && requested.userPath !== scope && requested.userPath?.startsWith(`${scope}/`) !== true) {
    return refusals.userPathOutOfScope(requested.userPath ?? '/', scope, 'user_path');
  }
  if (!covers(creator.allowedModels, requested.allowedModels)) return beyondModels(creator);
  if (isLater(requested.expiresAt, creator.expiresAt)) return beyondExpiry(creator);
  return requested.userPathHeader && !creator.userPathHeader
    ? refusals.exceedsOwnAccess('user_path_header', 'no header names its user path')
    : undefined;
}

/** The caller receives the secret and can use it: the same rule as for a new key, except for the caller's own key. */
export function beyondOwnAccess(access: KeyAccess, { id, by: { key } }: ByAdministrator): Refusal | undefined {
  if (key === undefined || key.id === id) return undefined;
  // For a key that is bound to a path, no header can name another path.
  return beyondCreator({ ...access, userPathHeader: access.userPathHeader && access.userPath === undefined }, key);
}

function beyondModels({ allowedModels }: AdministeringKey): Refusal {
  return refusals.exceedsOwnAccess('allowed_models', `it has ${JSON.stringify(allowedModels)}`);
}

function beyondExpiry({ expiresAt }: AdministeringKey): Refusal {
  return refusals.exceedsOwnAccess('expires_at', `it expires at ${timeOf(expiresAt)}`);
}

function isLater(one: number | undefined, other: number | undefined): boolean {
  return other !== undefined && (one === undefined || one > other);
}

function timeOf(at: number | undefined): string {
  return at === undefined ? 'no time' : new Date(at).toISOString();
}
