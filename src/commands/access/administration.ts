/** Which credentials may administer the gateway. The one rule for the admin API, its live tails and the metrics. */
import type { Caller } from '../model-request/caller.ts';

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
