/**
 * A chat completion request as a request of Ollama's `/api/chat`.
 *
 * | Chat | Ollama |
 * |---|---|
 * | `messages` | `messages` (see messages.ts) |
 * | `max_completion_tokens`, `max_tokens` | `options.num_predict` |
 * | `stop` | `options.stop`, always a list |
 * | `temperature`, `top_p`, `seed`, penalties, and Ollama's own (`num_ctx`, `top_k`, `min_p`, …) | the same in `options` |
 * | `reasoning_effort`, `reasoning.effort` | `think`: `false` for `none`, else `low`, `medium` or `high` |
 * | `response_format` | `format`: `json`, or the schema |
 * | `tools` | the same; anything but functions is refused |
 * | `tool_choice` `auto` | not sent: it is the default |
 * | `tool_choice` `none` | no `tools` are sent |
 * | `tool_choice` that demands a call, `parallel_tool_calls: false` | refused: Ollama cannot enforce it |
 * | `logprobs`, `top_logprobs` | the same |
 * | `logit_bias` | refused, unless it is empty or the provider's `strict_parameters` is false |
 * | `n`, audio, … | refused, unless the value has no effect |
 * | `metadata`, `store`, `user`, `stream_options`, … | not sent: they do not change the answer |
 * | any unknown member (`keep_alive`, `think`, `options`, …) | the same |
 */
import { isObject } from '../../../json/is-object.ts';
import type { ChatRequestFacts } from '../chat-adapter.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';
import { loweredEffort, type ReasoningEffort, refusedEffort } from '../responses-to-chat/reasoning-style.ts';
import { refusedMember, type UnhonouredMember, unknownMembers } from '../unhonoured-members.ts';
import { ollamaMessages } from './messages.ts';

export interface OllamaRequest {
  readonly ok: true;
  readonly body: JsonObject;
}

const unhonoured: readonly UnhonouredMember[] = [
  'audio',
  'function_call',
  'functions',
  'logit_bias',
  'modalities',
  'moderation',
  'n',
  'parallel_tool_calls',
  'prediction',
  'service_tier',
  'verbosity',
  'web_search_options',
];

/** Members that Ollama expects in `options`, with the same name. */
const optionNames = new Set([
  'temperature',
  'top_p',
  'seed',
  'presence_penalty',
  'frequency_penalty',
  'top_k',
  'min_p',
  'typical_p',
  'repeat_last_n',
  'repeat_penalty',
  'num_ctx',
  'num_keep',
  'num_predict',
]);

const translatedMembers = new Set<string>([
  ...unhonoured,
  ...optionNames,
  'max_completion_tokens',
  'max_tokens',
  'messages',
  'model',
  'options',
  'reasoning',
  'reasoning_effort',
  'response_format',
  'stop',
  'stream',
  'think',
  'tool_choice',
  'tools',
]);

export const ollamaEfforts: readonly ReasoningEffort[] = ['none', 'low', 'medium', 'high'];

export function ollamaRequestFromChat(chat: JsonObject, facts: ChatRequestFacts): OllamaRequest | Refused {
  const refused = refusedMember(chat, unhonoured, "Ollama's chat API", facts.options);
  if (refused !== undefined) return refused;
  const conversation = ollamaMessages(chat['messages']);
  if (!conversation.ok) return conversation;
  const tools = toolMembers(chat);
  if (!tools.ok) return tools;
  const format = formatMembers(chat['response_format']);
  if (!format.ok) return format;
  const options = optionMembers(chat);
  const { effort, param } = effortOf(chat);
  const unknownEffort = refusedEffort(effort, param);
  if (unknownEffort !== undefined) return unknownEffort;
  const think = chat['think'] ?? thinkOf(effort);
  return {
    ok: true,
    body: {
      model: facts.model,
      messages: conversation.messages,
      ...unknownMembers(chat, translatedMembers),
      ...tools.members,
      ...format.members,
      ...(think === undefined ? {} : { think }),
      ...(Object.keys(options).length === 0 ? {} : { options }),
      // The default of Ollama is true.
      stream: facts.stream,
    },
  };
}

function optionMembers(chat: JsonObject): JsonObject {
  const options: Record<string, unknown> = {};
  for (const [member, value] of Object.entries(chat)) {
    if (optionNames.has(member) && value !== null) options[member] = value;
  }
  const limit = chat['max_completion_tokens'] ?? chat['max_tokens'];
  if (limit !== undefined && limit !== null) options['num_predict'] = limit;
  const { stop } = chat;
  if (typeof stop === 'string') options['stop'] = [stop];
  else if (Array.isArray(stop) && stop.length > 0) options['stop'] = stop;
  return { ...options, ...(isObject(chat['options']) ? chat['options'] : {}) };
}

function effortOf({ reasoning, reasoning_effort: flat }: JsonObject) {
  const effort = filled(flat);
  if (effort !== undefined) return { effort, param: 'reasoning_effort' };
  return { effort: isObject(reasoning) ? filled(reasoning['effort']) : undefined, param: 'reasoning.effort' };
}

function thinkOf(requestedEffort: string | undefined): string | boolean | undefined {
  if (requestedEffort === undefined) return undefined;
  return requestedEffort === 'none' ? false : loweredEffort(requestedEffort, ollamaEfforts);
}

type Members = { readonly ok: true; readonly members: JsonObject } | Refused;

function toolMembers({ tools, tool_choice: choice }: JsonObject): Members {
  const given = tools ?? [];
  if (!Array.isArray(given)) return refuse('invalid_type', 'tools', "'tools' must be an array.");
  for (const [index, tool] of given.entries()) {
    if (isObject(tool) && tool['type'] === 'function') continue;
    return refuse('unsupported_value', `tools[${index}].type`, 'Ollama supports only function tools.');
  }
  if (choice !== undefined && choice !== null && choice !== 'auto' && choice !== 'none') {
    const message = "'tool_choice' cannot be honoured: Ollama cannot select a tool or require a tool call.";
    return refuse('unsupported_parameter', 'tool_choice', message);
  }
  return { ok: true, members: choice === 'none' || given.length === 0 ? {} : { tools: given } };
}

function formatMembers(format: unknown): Members {
  if (format === undefined || format === null) return { ok: true, members: {} };
  const { type, json_schema: given } = isObject(format) ? format : {};
  if (type === 'text') return { ok: true, members: {} };
  if (type === 'json_object') return { ok: true, members: { format: 'json' } };
  if (type === 'json_schema' && isObject(given) && isObject(given['schema'])) {
    return { ok: true, members: { format: given['schema'] } };
  }
  const message = "'response_format' must be of type 'text', 'json_object', or 'json_schema' with a schema.";
  return refuse('unsupported_value', 'response_format', message);
}
