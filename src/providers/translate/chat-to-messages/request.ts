/**
 * A chat completion request as a request of Anthropic's Messages API.
 *
 * | Chat | Messages |
 * |---|---|
 * | `messages` | `system`, `messages` (see messages.ts) |
 * | `max_completion_tokens`, `max_tokens` | `max_tokens`, which is always sent: its default is the provider's setting |
 * | `stop` | `stop_sequences` |
 * | `temperature` | the same; above 1 it is refused, since Anthropic's scale ends there |
 * | `tools`, `tool_choice`, `parallel_tool_calls` | see tools.ts |
 * | `reasoning_effort`, `reasoning.effort` | `thinking`, `output_config.effort` |
 * | `response_format` `json_schema` | `output_config.format` |
 * | `response_format` `json_object` | a tool whose input is the answer (see tools.ts) |
 * | `safety_identifier`, `user` | `metadata.user_id` |
 * | `service_tier` `auto`, `default` | `auto`, `standard_only`; others are refused |
 * | `seed`, penalties, `logit_bias` | refused, unless the value has no effect or the provider's `strict_parameters` is false |
 * | `n`, `logprobs`, audio, … | refused, unless the value has no effect |
 * | `metadata`, `store`, `prompt_cache_*`, `stream_options` | not sent: they do not change the answer |
 * | `top_p`, any unknown member (`top_k`, `thinking`, `context_management`, …) | the same |
 */
import { isObject } from '../../../json/is-object.ts';
import { type ChatRequestFacts, refusedMember, type UnhonouredMember, unknownMembers } from '../chat-adapter.ts';
import { filled, type JsonObject, type Refused, refuse } from '../json.ts';
import { loweredEffort, type ReasoningEffort, refusedEffort } from '../responses-to-chat/reasoning.ts';
import { isThinking, type MessageTurn, plainText, turnsOf } from './messages.ts';
import { toolMembers, withJsonAnswer } from './tools.ts';

export interface TranslatedMessagesRequest {
  readonly ok: true;
  readonly body: JsonObject;
}

export const DEFAULT_MAX_TOKENS = 4096;

const unhonoured: readonly UnhonouredMember[] = [
  'audio',
  'frequency_penalty',
  'function_call',
  'functions',
  'logit_bias',
  // Before the member that it depends on: only this one has the same name in a Responses request.
  'top_logprobs',
  'logprobs',
  'modalities',
  'moderation',
  'n',
  'prediction',
  'presence_penalty',
  'seed',
  'verbosity',
  'web_search_options',
];

const translatedMembers = new Set<string>([
  ...unhonoured,
  'max_completion_tokens',
  'max_tokens',
  'messages',
  'model',
  'output_config',
  'parallel_tool_calls',
  'reasoning',
  'reasoning_effort',
  'response_format',
  'service_tier',
  'stop',
  'stream',
  'temperature',
  'tool_choice',
  'tools',
]);

export function messagesRequestFromChat(
  chat: JsonObject,
  facts: ChatRequestFacts,
): TranslatedMessagesRequest | Refused {
  const refused = refusedMember(chat, unhonoured, "Anthropic's Messages API", facts.options);
  if (refused !== undefined) return refused;
  const conversation = turnsOf(chat['messages']);
  if (!conversation.ok) return conversation;
  const tools = toolMembers(chat);
  if (!tools.ok) return tools;
  const settings = settingMembers(chat);
  if (!settings.ok) return settings;
  const format = outputFormat(chat['response_format']);
  if (!format.ok) return format;
  const limit = limitOf(chat);
  if (!limit.ok) return limit;
  const { system, turns } = conversation;
  const toolChoice = tools.members['tool_choice'];
  const thinking = thinkingMembers(chat, { model: facts.model, maxTokens: limit.maxTokens, turns, toolChoice });
  if (!thinking.ok) return thinking;
  const toolsSent = format.isJsonObject ? withJsonAnswer(tools.members) : tools.members;
  const { type: thinks } = asObject(thinking.members['thinking'] ?? chat['thinking']);
  if (format.isJsonObject && (thinks === 'adaptive' || thinks === 'enabled')) {
    const message =
      "A 'response_format' of type 'json_object' cannot be combined with reasoning on an Anthropic model: " +
      "use the type 'json_schema', or leave out the reasoning effort.";
    return refuse('unsupported_value', 'response_format', message);
  }

  const { output_config: effort, ...thinkingSent } = thinking.members;
  const output = { ...format.members, ...asObject(effort), ...asObject(chat['output_config']) };
  return {
    ok: true,
    body: {
      model: facts.model,
      max_tokens: limit.maxTokens ?? defaultLimit(facts.options) + thinking.budget,
      ...(system.length === 0 ? {} : { system: plainText(system) ?? system }),
      messages: turns.map(messageOf),
      ...unknownMembers(chat, translatedMembers),
      ...settings.members,
      ...toolsSent,
      ...thinkingSent,
      ...(Object.keys(output).length === 0 ? {} : { output_config: output }),
      ...(facts.stream ? { stream: true } : {}),
    },
  };
}

function messageOf({ role, content }: MessageTurn): JsonObject {
  return { role, content: plainText(content) ?? content };
}

type Members = { readonly ok: true; readonly members: JsonObject };

function settingMembers(chat: JsonObject): Members | Refused {
  const members: Record<string, unknown> = {};
  const { temperature, stop, service_tier: tier } = chat;
  if (temperature !== undefined && temperature !== null) {
    if (typeof temperature === 'number' && temperature > 1) {
      const message = `'temperature' must be at most 1 for an Anthropic model, but is ${temperature}.`;
      return refuse('invalid_value', 'temperature', message);
    }
    members['temperature'] = temperature;
  }
  if (typeof stop === 'string') members['stop_sequences'] = [stop];
  else if (Array.isArray(stop) && stop.length > 0) members['stop_sequences'] = stop;
  if (tier === 'auto') members['service_tier'] = tier;
  else if (tier === 'default' || tier === 'standard_only') members['service_tier'] = 'standard_only';
  else if (filled(tier) !== undefined) {
    return refuse('unsupported_parameter', 'service_tier', `Anthropic has no service tier '${String(tier)}'.`);
  }
  const userId =
    filled(chat['safety_identifier']) ?? filled(chat['user']) ?? filled(asObject(chat['metadata'])['user_id']);
  if (userId !== undefined) members['metadata'] = { user_id: userId };
  return { ok: true, members };
}

function outputFormat(format: unknown): (Members & { readonly isJsonObject?: boolean }) | Refused {
  if (format === undefined || format === null) return { ok: true, members: {} };
  const { type, json_schema: given } = asObject(format);
  if (type === 'text') return { ok: true, members: {} };
  if (type === 'json_object') return { ok: true, members: {}, isJsonObject: true };
  const schema = asObject(given)['schema'];
  if (type === 'json_schema' && isObject(schema)) {
    return { ok: true, members: { format: { type: 'json_schema', schema } } };
  }
  return refuse(
    'unsupported_value',
    'response_format',
    "'response_format' must be of type 'text', 'json_object', or 'json_schema' with a schema.",
  );
}

function limitOf(chat: JsonObject): { readonly ok: true; readonly maxTokens: number | undefined } | Refused {
  for (const member of ['max_completion_tokens', 'max_tokens']) {
    const limit = chat[member];
    if (limit === undefined || limit === null) continue;
    if (typeof limit === 'number' && Number.isInteger(limit) && limit > 0) return { ok: true, maxTokens: limit };
    return refuse('invalid_value', member, `'${member}' must be a positive integer.`);
  }
  return { ok: true, maxTokens: undefined };
}

function defaultLimit(options: Readonly<Record<string, string>>): number {
  const configured = Number(options['defaultMaxTokens']);
  return Number.isInteger(configured) && configured > 0 ? configured : DEFAULT_MAX_TOKENS;
}

function asObject(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/**
 * The thinking effort of a model. Claude from 4.6 on decides by itself, from an effort (`thinking: adaptive`); earlier
 * models from 3.7 on, and other models behind the same API, get a budget of tokens (`thinking: enabled`). Claude before 3.7
 * cannot think and refuses a budget: an effort is lowered to none there.
 *
 * | Effort | Sent to adaptive models | Budget |
 * |---|---|---|
 * | `none` | `thinking: disabled` | `thinking: disabled` |
 * | `minimal` | `low` | 1,024 |
 * | `low` | `low` | 5,000 |
 * | `medium` | `medium` | 10,000 |
 * | `high` | `high` | 20,000 |
 * | `xhigh`, `max` | the same; lowered where 4.6 lacks it | 30,000 |
 *
 * The client's limit includes thinking, so a budget is lowered to half of it. Where the client sets no limit, the
 * default one is raised by the budget. With thinking Anthropic accepts no temperature other than 1, and with a budget
 * no forced tool: such requests are refused here, since dropping either member would change the request.
 */
interface Thinking {
  readonly ok: true;
  /** `thinking` and `output_config`, if they are sent. */
  readonly members: JsonObject;
  /** Output tokens reserved for thinking. */
  readonly budget: number;
}

interface ThinkingFacts {
  readonly model: string;
  /** The client's own limit on output tokens. */
  readonly maxTokens: number | undefined;
  readonly turns: readonly MessageTurn[];
  readonly toolChoice: unknown;
}

const SMALLEST_BUDGET = 1024;

const budgets: ReadonlyMap<string, number> = new Map([
  ['minimal', SMALLEST_BUDGET],
  ['low', 5000],
  ['medium', 10_000],
  ['high', 20_000],
  ['xhigh', 30_000],
  ['max', 30_000],
]);

const nothing: Thinking = { ok: true, members: {}, budget: 0 };

function thinkingMembers(chat: JsonObject, facts: ThinkingFacts): Thinking | Refused {
  const effortRead = effortIn(chat);
  if ('ok' in effortRead) return effortRead;
  const { effort, param } = effortRead;
  // A client that sends Anthropic's own `thinking` decides by itself.
  if (effort === undefined || isObject(chat['thinking'])) return nothing;
  const unknownEffort = refusedEffort(effort, param);
  if (unknownEffort !== undefined) return unknownEffort;
  const version = versionOf(facts.model);
  if (version !== undefined && version < FIRST_THINKING) return nothing;
  if (effort === 'none') return { ok: true, members: { thinking: { type: 'disabled' } }, budget: 0 };
  const budget = budgets.get(effort) ?? SMALLEST_BUDGET;
  const levels = adaptiveLevels(facts.model);
  if (levels === undefined && continuesWithoutThinking(facts.turns)) return nothing;
  const { temperature } = chat;
  if (temperature !== undefined && temperature !== null && temperature !== 1) {
    const message = `'temperature' must be 1, or left out, when '${param}' asks the model to think.`;
    return refuse('unsupported_parameter', 'temperature', message);
  }
  if (levels !== undefined) {
    // Newer models return no thinking unless it is requested.
    const thinking = { type: 'adaptive', display: 'summarized' };
    return { ok: true, members: { thinking, output_config: { effort: loweredEffort(effort, levels) } }, budget };
  }
  return withBudget(budget, param, facts);
}

function withBudget(
  requestedBudget: number,
  param: string,
  { maxTokens, toolChoice }: ThinkingFacts,
): Thinking | Refused {
  if (isObject(toolChoice) && (toolChoice['type'] === 'any' || toolChoice['type'] === 'tool')) {
    const message = `'tool_choice' cannot force a tool when '${param}' asks this model to think.`;
    return refuse('unsupported_parameter', 'tool_choice', message);
  }
  if (maxTokens !== undefined && maxTokens <= SMALLEST_BUDGET) {
    const message = `The limit on output tokens must be above ${SMALLEST_BUDGET} when '${param}' asks the model to think.`;
    return refuse('invalid_value', 'max_tokens', message);
  }
  const half = maxTokens === undefined ? requestedBudget : Math.floor(maxTokens / 2);
  const budget = Math.max(SMALLEST_BUDGET, Math.min(requestedBudget, half));
  return { ok: true, members: { thinking: { type: 'enabled', budget_tokens: budget } }, budget };
}

interface EffortRead {
  readonly effort: string | undefined;
  readonly param: string;
}

function effortIn({ reasoning, reasoning_effort: flat }: JsonObject): EffortRead | Refused {
  if (isObject(reasoning)) {
    const { effort: _effort, summary: _summary, generate_summary: _older, ...rest } = reasoning;
    const other = Object.keys(rest).find((member) => rest[member] !== null && rest[member] !== undefined);
    if (other !== undefined) {
      const message = `'reasoning.${other}' cannot be honoured: an Anthropic model accepts only an effort.`;
      return refuse('unsupported_parameter', `reasoning.${other}`, message);
    }
  }
  const effort = filled(flat);
  if (effort !== undefined) return { effort, param: 'reasoning_effort' };
  return { effort: isObject(reasoning) ? filled(reasoning['effort']) : undefined, param: 'reasoning.effort' };
}

const FIRST_THINKING = 307;
const FIRST_ADAPTIVE = 406;
const upToMax: readonly ReasoningEffort[] = ['low', 'medium', 'high', 'xhigh', 'max'];

/** The effort levels of an adaptive model; undefined for one that gets a budget. */
function adaptiveLevels(model: string): readonly ReasoningEffort[] | undefined {
  const name = claudeName(model);
  if (name === undefined) return undefined;
  const version = versionOf(model);
  if (version === undefined || version > FIRST_ADAPTIVE) return upToMax;
  if (version < FIRST_ADAPTIVE) return undefined;
  return name.includes('opus') ? ['low', 'medium', 'high', 'max'] : ['low', 'medium', 'high'];
}

function claudeName(model: string): string | undefined {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase();
  return name.includes('claude') ? name : undefined;
}

/** The version in names such as `claude-opus-4-6` and `claude-3-7-sonnet`, as 406 and 307; eight digits are a date. */
function versionOf(model: string): number | undefined {
  const name = claudeName(model);
  if (name === undefined) return undefined;
  const found = /(?:^|[-.])(\d{1,2})(?:[-.](\d{1,2})(?!\d))?(?=[-.@:]|$)/.exec(name);
  return found === null ? undefined : Number(found[1]) * 100 + Number(found[2] ?? 0);
}

/**
 * Whether the request continues a turn whose thinking is lost: the turn has tool calls, and the client did not send
 * back the thinking before them. Anthropic would refuse it with a budget, and accepts it without thinking.
 */
function continuesWithoutThinking(turns: readonly MessageTurn[]): boolean {
  const [before, last] = turns.slice(-2);
  if (before?.role !== 'assistant' || last?.content[0]?.['type'] !== 'tool_result') return false;
  return !isThinking(before.content[0]);
}
