/** Who shares cached answers with whom. */
import type { Caller } from '../../model-request/caller.ts';
import type { CachePolicy } from '../policy.ts';

/**
 * Callers with the same text share answers. `user_path`: the keys bound to exactly the same path; a caller without a
 * bound key, which may choose its path with a header, shares only with itself at the same path.
 */
export function cacheScopeOf({ actor, userPath, key }: Caller, scope: CachePolicy['scope']): string {
  if (scope === 'shared') return 'shared';
  if (scope === 'user_path' && key?.userPath !== undefined) return `path:${userPath ?? key.userPath}`;
  return `caller:${actor}:${userPath ?? ''}`;
}
