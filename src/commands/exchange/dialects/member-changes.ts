/** How the body for the provider differs from the client's, member by member. */
import type { PlanInput } from '../dialect.ts';

/** The members that differ between the client's body and the provider's, as JSON texts. */
export function memberChanges({
  parsedRequest,
  target: { model },
}: Pick<PlanInput, 'parsedRequest' | 'target'>): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = {};
  if (parsedRequest.model !== model) changes.model = JSON.stringify(model);
  // An object under `provider` is a routing preference for the provider, not a selector of the gateway.
  if (typeof parsedRequest.json.provider === 'string') changes.provider = undefined;
  return changes;
}

export function hasMembers(changes: object): boolean {
  for (const _ in changes) return true;
  return false;
}
