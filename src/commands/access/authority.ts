/**
 * Who stands above whom among administrators: the master key and the configuration above all keys, keys of the whole
 * gateway above those of a subtree, and those of a subtree above those of what is below it. What a higher one set
 * is not for a lower one to relax.
 */
import type { Actor, UserPath } from '../../events/event.ts';
import type { Caller } from '../model-request/caller.ts';
import { subtreeOf } from '../visibility.ts';
import type { KeyDirectory } from './key-directory.ts';

/** The authority of the caller that changes a setting over that setting. */
export interface Authority {
  /** Whether what this actor set stands above it. */
  isUnder(actor: Actor): boolean;
}

/** Nothing stands above it. */
export const highest: Authority = { isUnder: () => false };

/** Of a caller over what concerns itself. */
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

/** Of a caller over the settings of a user path. Below the root of its subtree, and for who has none, nothing is above. */
export function authorityAt(path: string, caller: Caller, keys: Pick<KeyDirectory, 'byId'>): Authority {
  return path === subtreeOf(caller.key) ? authorityOf(caller, keys) : highest;
}

function isAbove(one: UserPath | undefined, other: UserPath | undefined): boolean {
  if (other === undefined) return false;
  return one === undefined || other.startsWith(`${one}/`);
}
