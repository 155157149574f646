/** Changes that a provider type needs in a chat request's top-level members. All other members are sent unchanged. */
import { isObject } from '../json/is-object.ts';
import { loweredEffort, type ReasoningStyle } from './translate/responses-to-chat/reasoning-style.ts';
import { providerType } from './types.ts';

/** Member name → its new JSON text, or undefined to delete it; input of `rewriteMembers`. */
export type MemberChanges = Record<string, string | undefined>;

/** @param model the provider's own id of the model */
export function adjustChatBody(
  type: string,
  model: string,
  body: Readonly<Record<string, unknown>>,
): MemberChanges | undefined {
  const row = providerType(type);
  if (row === undefined || row.chatAsSent === true) return undefined;
  const changes: MemberChanges = {};
  const reasons = row.openAiReasoningModels === true && isOpenAiReasoningModel(model);
  adjustEffort(body, row.reasoning, changes);
  if (reasons) {
    rename(body, 'max_tokens', 'max_completion_tokens', changes);
    if ('temperature' in body) changes['temperature'] = undefined;
  }
  if (row.maxTokensOnly === true) rename(body, 'max_completion_tokens', 'max_tokens', changes);
  if (row.refusesStreamOptions === true && (body['stream'] === true || 'stream_options' in body)) {
    changes['stream_options'] = undefined;
  }
  for (const _ in changes) return changes;
  return undefined;
}

/** The o-series and gpt-5, except `gpt-5-chat`, which does not reason. */
function isOpenAiReasoningModel(model: string): boolean {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase();
  return /^o\d(?![a-z0-9])/.test(name) || (/^gpt-5(?![a-z0-9])/.test(name) && !/^gpt-5[.\d]*-chat/.test(name));
}

/** Moves `reasoning: {effort}` to the type's own member, and replaces an unknown level by the nearest known one. */
function adjustEffort(body: Readonly<Record<string, unknown>>, style: ReasoningStyle, changes: MemberChanges): void {
  const { reasoning, reasoning_effort: flat } = body;
  const requestedEffort = isObject(reasoning) ? reasoning['effort'] : undefined;
  if (style.effort === 'object') {
    if (!isObject(reasoning) || typeof requestedEffort !== 'string') return;
    const effort = loweredEffort(requestedEffort, style.levels);
    if (effort !== requestedEffort) changes['reasoning'] = JSON.stringify({ ...reasoning, effort });
    return;
  }
  if (reasoning !== undefined) changes['reasoning'] = undefined;
  const level = typeof flat === 'string' ? flat : requestedEffort;
  if (style.effort === 'omit' || typeof level !== 'string') return;
  const effort = loweredEffort(level, style.levels);
  if (effort !== flat) changes['reasoning_effort'] = JSON.stringify(effort);
}

/** When the body has both, the member with the provider's name stays and the other is deleted. */
function rename(body: Readonly<Record<string, unknown>>, from: string, to: string, changes: MemberChanges): void {
  if (!(from in body)) return;
  changes[from] = undefined;
  if (body[to] === undefined || body[to] === null) changes[to] = JSON.stringify(body[from]);
}
