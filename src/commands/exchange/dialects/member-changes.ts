/** How the body for the provider differs from the client's, member by member. */
import type { PlanInput } from '../dialect.ts';

const MODEL = 'model';
const MODEL_MEMBER = Buffer.from(`"${MODEL}"`);
/** The beginning of an escaped letter, which may also occur in the name of a member. */
const ESCAPED_LETTER = Buffer.from('\\u00');

/**
 * Whether a text may have a second member `model`. JSON parsers differ in which of two they take; the provider must
 * take the one that the gateway has read. The check is quick and may report a second member where there is none.
 */
function mayNameTwo(body: Buffer): boolean {
  const first = body.indexOf(MODEL_MEMBER);
  return body.includes(MODEL_MEMBER, first + MODEL_MEMBER.length) || body.includes(ESCAPED_LETTER);
}

/** The members that differ between the client's body and the provider's, as JSON texts. */
export function memberChanges({
  parsedRequest,
  body,
  target: { model },
}: Pick<PlanInput, 'parsedRequest' | 'body' | 'target'>): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = {};
  if (parsedRequest.model !== model || mayNameTwo(body)) changes.model = JSON.stringify(model);
  // Some servers ignore the case of names.
  for (const name in parsedRequest.json) {
    if (name.length === MODEL.length && name !== MODEL && name.toLowerCase() === MODEL) changes[name] = undefined;
  }
  // An object under `provider` is a routing preference for the provider, not a selector of the gateway.
  if (typeof parsedRequest.json.provider === 'string') changes.provider = undefined;
  return changes;
}

export function hasMembers(changes: object): boolean {
  for (const _ in changes) return true;
  return false;
}
