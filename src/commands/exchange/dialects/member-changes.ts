/** How the body that a provider gets differs from the client's, member by member. */
import type { PlanInput } from '../dialect.ts';

const MODEL = 'model';
const MODEL_MEMBER = Buffer.from(`"${MODEL}"`);
/** How a letter begins that is written as an escape, also in the name of a member. */
const ESCAPED_LETTER = Buffer.from('\\u00');

/**
 * Whether a text may have a second member `model`. Readers differ in which of two they take, and the provider has to
 * take the one that was looked at here. Quick, and now and then wrong for the better.
 */
function mayNameTwo(body: Buffer): boolean {
  const first = body.indexOf(MODEL_MEMBER);
  return body.includes(MODEL_MEMBER, first + MODEL_MEMBER.length) || body.includes(ESCAPED_LETTER);
}

/** The members that differ between what the client sent and what the provider gets, as JSON texts. */
export function memberChanges({
  asked,
  body,
  target: { model },
}: Pick<PlanInput, 'asked' | 'body' | 'target'>): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = {};
  if (asked.model !== model || mayNameTwo(body)) changes.model = JSON.stringify(model);
  // Some servers read names in any case.
  for (const name in asked.json) {
    if (name.length === MODEL.length && name !== MODEL && name.toLowerCase() === MODEL) changes[name] = undefined;
  }
  // An object under `provider` is a provider's own routing preference and none of ours.
  if (typeof asked.json.provider === 'string') changes.provider = undefined;
  return changes;
}

export function hasMembers(changes: object): boolean {
  for (const _ in changes) return true;
  return false;
}
