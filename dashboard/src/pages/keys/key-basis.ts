import { getAnswer } from '../../api/client.ts';
import type { Basis } from '../../ui/changed-meanwhile.tsx';
import type { KeyRow } from './key-row.ts';
import { keyPath } from './keys-address.ts';

/** What an action on a key is based on. */
export function keyBasis(row: KeyRow): Basis {
  return {
    ...{ revision: row.revision, shown: versionOf(row) },
    async readCurrent() {
      const now = await getAnswer({ of: '/admin/auth-keys/{id}', at: keyPath(row.id) });
      return { revision: now.revision, version: versionOf(now) };
    },
  };
}

/** What administrators change of a key. */
function versionOf({ name, description, user_path, enabled, expires_at, labels, allowed_models, ...key }: KeyRow) {
  const { user_path_header, dashboard_access, redacted_value, allowed_cidrs } = key;
  return {
    ...{ name, description, user_path, enabled, expires_at, labels, allowed_models },
    ...{ user_path_header, dashboard_access, redacted_value, allowed_cidrs },
  };
}
