/** Limits the length of the answers in the request to a provider, in the provider's dialect, to what a budget covers. */
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { adjustChatBody } from '../../../providers/chat-adjustments.ts';
import { membersIn, rewriteMembers } from '../../../providers/json-members.ts';
import type { Target } from '../../model-request/target.ts';
import { isLimitWithin, OUTPUT_LIMITS } from '../../model-request/token-estimate.ts';
import type { Refusal } from '../../refusal.ts';
import type { Plan } from '../plan.ts';

/** The member that limits an answer, of those dialects in which it is a member of the body. */
const LIMITS: Readonly<Record<string, string>> = {
  chat: 'max_tokens',
  messages: 'max_tokens',
  responses: 'max_output_tokens',
  forward: 'max_tokens',
};

/**
 * The plan with a limit of at most so many tokens for each answer. A lower limit of the request stays.
 * @param limit undefined when there is nothing to limit
 */
export function limitedPlan(plan: Plan, target: Target, limit: number | undefined): Plan {
  if (limit === undefined || !Buffer.isBuffer(plan.body)) return plan;
  const body =
    plan.dialect === 'ollama_chat' ? ofOllama(plan.body, limit) : limited(plan.body, plan.dialect, target, limit);
  const { instead } = plan;
  return {
    ...plan,
    ...(body === undefined ? {} : { body, outputLimit: limit }),
    ...(instead === undefined
      ? {}
      : { instead: (refusal: Refusal) => instead(refusal)?.then((other) => limitedPlan(other, target, limit)) }),
  } as Plan;
}

/** @returns undefined when the request's own limits are lower */
function limited(body: Buffer, dialect: string, { provider, model }: Target, limit: number): Buffer | undefined {
  const name = LIMITS[dialect];
  if (name === undefined) return undefined;
  const given = new Map(membersIn(body).map((member) => [member.name, member.value]));
  const text = String(limit);
  const changes: Record<string, string | undefined> = {};
  let isLimited = false;
  for (const one of OUTPUT_LIMITS) {
    const value = parseExactly(given.get(one)?.toString() ?? 'null');
    if (value === null) continue;
    isLimited = true;
    if (!isLimitWithin(value, limit)) changes[one] = text;
  }
  if (!isLimited) {
    changes[name] = text;
    if (dialect === 'chat') Object.assign(changes, adjustChatBody(provider.type, model, { [name]: limit }));
  }
  return Object.keys(changes).length === 0 ? undefined : rewriteMembers(body, changes);
}

function ofOllama(body: Buffer, limit: number): Buffer | undefined {
  const given = membersIn(body).findLast(({ name }) => name === 'options');
  const parsed = given === undefined ? {} : parseExactly(given.value.toString());
  const options = isObject(parsed) ? parsed : {};
  if (isLimitWithin(options['num_predict'], limit)) return undefined;
  return rewriteMembers(body, { options: JSON.stringify({ ...options, num_predict: limit }) });
}
