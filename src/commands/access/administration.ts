/** Which credentials administer the gateway. The one rule for the admin API, its live tails and the metrics. */
import type { Caller } from '../model-request/caller.ts';

/**
 * Why the caller does not administer; undefined when it does. The secret that a rotation replaced is accepted for
 * inference until its grace period ends, and administers nothing from the rotation on: it could otherwise rotate its key
 * again, and end the new secret instead of itself.
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
