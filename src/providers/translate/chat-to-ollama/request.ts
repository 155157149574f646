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
import { type ChatRequestFacts, refusedMember, type UnhonouredMember, unknownMembers } from '../chat-adapter.ts';
import { callArguments, filled, type JsonObject, parseDataUrl, type Refused, refuse } from '../json.ts';
import { loweredEffort, type ReasoningEffort, refusedEffort } from '../responses-to-chat/reasoning.ts';

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

/**
 * Chat messages in the format of Ollama's `/api/chat`, where content is a string and images are separate.
 *
 * | Chat | Ollama |
 * |---|---|
 * | `system`, `developer` | `system` |
 * | text parts | `content`, joined by line feeds |
 * | `image_url` with a data URL | `images`: the bare base64 |
 * | `image_url` with a URL, `file`, `input_audio`, other parts | refused: only text and images are supported |
 * | `reasoning_content`, `reasoning` of the assistant | `thinking` |
 * | `tool_calls` | the same, with arguments as an object |
 * | `tool` | `tool` with `tool_call_id`, and with the `tool_name` of the call it answers |
 */
interface OllamaMessages {
  readonly ok: true;
  readonly messages: readonly JsonObject[];
}

const roles: ReadonlyMap<unknown, string> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['user', 'user'],
  ['assistant', 'assistant'],
  ['tool', 'tool'],
]);

function ollamaMessages(messages: unknown): OllamaMessages | Refused {
  if (!Array.isArray(messages)) return refuse('invalid_type', 'messages', "'messages' must be an array.");
  const translated: JsonObject[] = [];
  const toolNames = new Map<string, string>();
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`;
    if (!isObject(message)) return refuse('invalid_type', path, `${path} must be an object.`);
    const result = ollamaMessage(message, path, toolNames);
    if ('ok' in result) return result;
    translated.push(result.message);
  }
  return { ok: true, messages: translated };
}

type Translated = { readonly message: JsonObject } | Refused;

/** @param toolNames of the calls so far, by their ids: those of this message are added */
function ollamaMessage(message: JsonObject, path: string, toolNames: Map<string, string>): Translated {
  const role = roles.get(message['role']);
  if (role === undefined) {
    const given = String(message['role']);
    return refuse('unsupported_value', `${path}.role`, `Messages of role '${given}' cannot be given to Ollama.`);
  }
  const parsedContent = contentOf(message['content'], `${path}.content`);
  if ('ok' in parsedContent) return parsedContent;
  const { content, images } = parsedContent;
  const translated: Record<string, unknown> = { role, content };
  if (images.length > 0) translated['images'] = images;
  if (role === 'tool') {
    const id = filled(message['tool_call_id']);
    const name = filled(message['name']) ?? (id === undefined ? undefined : toolNames.get(id));
    if (name !== undefined) translated['tool_name'] = name;
    if (id !== undefined) translated['tool_call_id'] = id;
  }
  if (role === 'assistant') {
    const thinking = filled(message['reasoning_content']) ?? filled(message['reasoning']);
    if (thinking !== undefined) translated['thinking'] = thinking;
    const calls = callsOf(message['tool_calls'] ?? [], `${path}.tool_calls`, toolNames);
    if ('ok' in calls) return calls;
    if (calls.calls.length > 0) translated['tool_calls'] = calls.calls;
  }
  return { message: translated };
}

function contentOf(
  content: unknown,
  path: string,
): { readonly content: string; readonly images: readonly string[] } | Refused {
  if (content === null || content === undefined) return { content: '', images: [] };
  if (typeof content === 'string') return { content, images: [] };
  if (!Array.isArray(content)) return refuse('invalid_type', path, `${path} must be a string or an array of parts.`);
  const texts: string[] = [];
  const images: string[] = [];
  for (const [index, given] of content.entries()) {
    const at = `${path}[${index}]`;
    const part: unknown = typeof given === 'string' ? { type: 'text', text: given } : given;
    if (!isObject(part)) return refuse('invalid_type', at, `${at} must be an object.`);
    const { type, text, refusal, image_url: image } = part;
    if (type === 'text') texts.push(filled(text) ?? '');
    else if (type === 'refusal') texts.push(filled(refusal) ?? '');
    else if (type === 'image_url') {
      const data = parseDataUrl(filled(isObject(image) ? image['url'] : image) ?? '');
      if (data === undefined) {
        return refuse('invalid_value', `${at}.image_url`, 'Ollama takes an image as a data URL only: it fetches none.');
      }
      images.push(data.base64);
    } else {
      const message = `A part of type '${String(type)}' cannot be given to Ollama: it takes text and images.`;
      return refuse('unsupported_value', `${at}.type`, message);
    }
  }
  return { content: texts.join('\n'), images };
}

function callsOf(
  calls: unknown,
  path: string,
  toolNames: Map<string, string>,
): { readonly calls: readonly JsonObject[] } | Refused {
  if (!Array.isArray(calls)) return refuse('invalid_type', path, `${path} must be an array.`);
  const translated: JsonObject[] = [];
  for (const [index, call] of calls.entries()) {
    const at = `${path}[${index}]`;
    const called = isObject(call) ? call['function'] : undefined;
    if (!isObject(call) || !isObject(called)) {
      return refuse('unsupported_value', at, `${at} must be the call of a function.`);
    }
    const name = filled(called['name']);
    if (name === undefined) {
      return refuse('missing_required_parameter', `${at}.function.name`, `${at}.function.name is missing.`);
    }
    const args = callArguments(called['arguments']);
    if (args === undefined) {
      const param = `${at}.function.arguments`;
      return refuse('invalid_value', param, `${param} must be the text of a JSON object; Ollama takes nothing else.`);
    }
    const id = filled(call['id']);
    if (id !== undefined) toolNames.set(id, name);
    translated.push({ ...(id === undefined ? {} : { id }), function: { index, name, arguments: args } });
  }
  return { calls: translated };
}
