/** Names of managed keys in reports, for callers who may see the key. */
import type { UserPath } from '../../events/event.ts';
import type { KeyRecord } from '../../projections/key-record.ts';
import { isWithin } from './admin-scope.ts';

export interface VisibleKeys {
  /** @param scope of the caller. @returns undefined for an unknown key, and for one outside the scope */
  nameOf(keyId: string, scope: UserPath | undefined): string | undefined;
}

export function visibleKeys(byId: (keyId: string) => Pick<KeyRecord, 'name' | 'userPath'> | undefined): VisibleKeys {
  return {
    nameOf(keyId, scope) {
      const key = byId(keyId);
      return key !== undefined && isWithin(scope, key.userPath) ? key.name : undefined;
    },
  };
}
