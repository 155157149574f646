/**
 * The ranks of administrators: the master key and the configuration rank above all keys, keys of the whole gateway
 * above keys of a subtree, and keys of a subtree above keys of the paths below it. An administrator cannot relax a
 * setting of a higher one.
 */
import type { Actor, UserPath } from '../../events/event.ts';
import type { Caller } from '../model-request/model-request.ts';
import { subtreeOf } from '../visibility.ts';
import type { KeyDirectory } from './key-directory.ts';

/** The authority of the caller that changes a setting over that setting. */
export interface Authority {
  /** Whether this actor ranks higher, so that its setting is binding. */
  isUnder(actor: Actor): boolean;
}

/** The highest rank. */
export const highest: Authority = { isUnder: () => false };

/** The authority of a caller over its own settings. */
export function authorityOf({ key }: Caller, keys: Pick<KeyDirectory, 'byId'>): Authority {
  if (key === undefined) return highest;
  const own = subtreeOf(key);
  return {
    isUnder(actor) {
      if (!actor.startsWith('key:')) return true;
      const id = actor.slice('key:'.length);
      if (id === key.id) return false;
      const other = keys.byId(id);
      // Keys are never deleted, so an unknown key is treated as higher.
      return other === undefined || isAbove(subtreeOf(other), own);
    },
  };
}

/**
 * The authority of a caller over the settings of a user path. It is the highest below the root of the caller's
 * subtree, and everywhere for a caller without a subtree.
 */
export function authorityAt(path: string, caller: Caller, keys: Pick<KeyDirectory, 'byId'>): Authority {
  return path === subtreeOf(caller.key) ? authorityOf(caller, keys) : highest;
}

function isAbove(one: UserPath | undefined, other: UserPath | undefined): boolean {
  if (other === undefined) return false;
  return one === undefined || other.startsWith(`${one}/`);
}

/** The last value that each administrator set for one setting, oldest first. Folded from the events of the setting. */
interface AdministratorValue<Value> {
  readonly by: Actor;
  /** Undefined when the administrator removed the setting. */
  readonly value: Value | undefined;
}

export type ValuesByAdministrator<Value> = readonly AdministratorValue<Value>[];

export function withValue<Value>(
  values: ValuesByAdministrator<Value> = [],
  by: Actor,
  value: Value | undefined,
): ValuesByAdministrator<Value> {
  return [...values.filter((word) => word.by !== by), { by, value }];
}

/**
 * The newest value set by a higher-ranked administrator; undefined when there is none, or when it removes the
 * setting.
 */
export function bindingValue<Value>(
  values: ValuesByAdministrator<Value> = [],
  { isUnder }: Authority,
): Value | undefined {
  return values.findLast(({ by }) => isUnder(by))?.value;
}

// Which credentials may administer the gateway. The one rule for the admin API, its live tails and the metrics.

/**
 * Why the caller may not administer; undefined when it may. The secret that a rotation replaced is accepted for
 * inference until its grace period ends, but not for administration: its holder could otherwise rotate the key again
 * and so invalidate the new secret.
 */
export function whyNotAdministrator({
  key,
  hasPreviousSecret,
}: Pick<Caller, 'hasPreviousSecret'> & {
  readonly key?: { readonly dashboardAccess: boolean } | undefined;
}): 'no dashboard access' | 'previous secret' | undefined {
  if (key === undefined) return undefined;
  if (!key.dashboardAccess) return 'no dashboard access';
  return hasPreviousSecret === true ? 'previous secret' : undefined;
}
