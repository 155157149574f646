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
 * | `reasoning_effort`, `reasoning.effort` | `thinking`, `output_config.effort` (see thinking.ts) |
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
import type { ChatRequestFacts } from '../chat-adapter.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';
import { refusedMember, type UnhonouredMember, unknownMembers } from '../unhonoured-members.ts';
import { type MessageTurn, plainText, turnsOf } from './messages.ts';
import { thinkingMembers } from './thinking.ts';
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
