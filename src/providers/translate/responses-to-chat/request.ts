/**
 * A Responses request as a chat completions request.
 *
 * Every member is translated, refused, or known to have no effect on the answer; `null` and `''` mean "not given".
 *
 * | Responses | Chat |
 * |---|---|
 * | `instructions`, `input` | `messages` (see messages.ts) |
 * | `tools`, `tool_choice`, `parallel_tool_calls` | the same (see tools.ts) |
 * | `max_output_tokens` | `max_tokens` |
 * | `text.format` | `response_format`; an unknown format or option of `text` is refused |
 * | `text.verbosity` | `verbosity`, unless it is `medium`, which is the default |
 * | `reasoning` | according to the provider's reasoning style (see reasoning.ts) |
 * | `include`, `top_logprobs` | `logprobs`, `top_logprobs` |
 * | `stream` | `stream`, always with `stream_options.include_usage` |
 * | `stream_options.include_obfuscation: true` | refused: deltas are not padded |
 * | `service_tier` | the same, unless it is `auto` or `default`, which are the default |
 * | `temperature`, `top_p`, `user`, any unknown member | the same |
 * | `n` above 1 | refused: a response has one answer |
 * | `prompt`, `context_management`, `moderation`, `access_programs`, `image`, an unknown `truncation` | refused: only a native Responses provider can honour them |
 * | `truncation` | not sent: the gateway drops the oldest turns before translation |
 * | `previous_response_id`, `conversation` | refused: history is put into `input` before translation |
 * | `max_tool_calls` | not sent: it limits hosted tools, and none are executed |
 * | `background` | not sent: the gateway itself generates the response in the background |
 * | `metadata`, `store`, `provider`, `safety_identifier`, `prompt_cache_*`, `client_metadata` | not sent: they do not change the answer |
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, isUnset, type JsonObject, type Refused, refuse, type TranslationRefusal } from '../json.ts';
import { type ChatMessage, chatMessages } from './items-to-chat-messages.ts';
import { type ReasoningStyle, reasoningMembers, refusedReasoning } from './reasoning.ts';
import { chatTools } from './tools.ts';

interface ChatRequest {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly stream?: boolean;
  readonly [member: string]: unknown;
}

export interface ChatRequestOptions {
  /** The provider's own id of the model. */
  readonly model: string;
  readonly reasoningStyle: ReasoningStyle;
}

export interface TranslatedRequest {
  readonly ok: true;
  readonly body: ChatRequest;
}

const translatedMembers = new Set([
  'model',
  'input',
  'instructions',
  'messages',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'max_output_tokens',
  'text',
  'reasoning',
  'include',
  'top_logprobs',
  'stream',
  'stream_options',
  'truncation',
]);

const withoutEffect = new Set([
  'background',
  'client_metadata',
  'max_tool_calls',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'provider',
  'safety_identifier',
  'store',
]);

const nativeOnly = [
  'prompt',
  'context_management',
  'moderation',
  'access_programs',
  'image',
  'previous_response_id',
  'conversation',
];

/** Values with the same meaning as an omitted member, which a provider without the member would refuse. */
const asIfUnset: ReadonlyMap<string, readonly unknown[]> = new Map([['service_tier', ['auto', 'default']]]);

export function chatRequestFromResponses(body: JsonObject, options: ChatRequestOptions): TranslatedRequest | Refused {
  const refused =
    refusedMember(body) ??
    refusedInclude(body['include']) ??
    refusedReasoning(body['reasoning'], options.reasoningStyle);
  if (refused !== undefined) return refused;
  const conversation = chatMessages(body, options.reasoningStyle);
  if (!conversation.ok) return conversation;
  const tools = chatTools(body);
  if (!tools.ok) return tools;
  const text = textMembers(body['text']);
  if (!text.ok) return text;

  const request: Record<string, unknown> = { model: options.model, messages: conversation.messages };
  for (const member in body) {
    const value = body[member];
    if (isUnset(value) || translatedMembers.has(member) || withoutEffect.has(member)) continue;
    if (asIfUnset.get(member)?.includes(value) === true) continue;
    if (!nativeOnly.includes(member)) request[member] = value;
  }
  if (!isUnset(body['max_output_tokens'])) request['max_tokens'] = body['max_output_tokens'];
  Object.assign(
    request,
    tools.members,
    text.members,
    reasoningMembers(body['reasoning'], options.reasoningStyle),
    logprobMembers(body),
  );
  if (body['stream'] === true) {
    Object.assign(request, { stream: true, stream_options: streamOptions(body['stream_options']) });
  }
  return { ok: true, body: { ...request, model: options.model, messages: conversation.messages } };
}

function refusedMember(body: JsonObject): Refused | undefined {
  for (const member of nativeOnly) {
    if (!isUnset(body[member])) return unsupported(member);
  }
  const truncation = filled(body['truncation']);
  if (truncation !== undefined && truncation !== 'disabled' && truncation !== 'auto') return unsupported('truncation');
  const options = body['stream_options'];
  if (isObject(options) && options['include_obfuscation'] === true) {
    return unsupported('stream_options.include_obfuscation');
  }
  if (typeof body['n'] === 'number' && body['n'] > 1) {
    return refuse('unsupported_parameter', 'n', "'n' must be 1: a response holds one answer.");
  }
  return undefined;
}

function unsupported(member: string): Refused {
  return refuse(
    'unsupported_parameter',
    member,
    `'${member}' needs a provider with a native Responses API; this model's provider has none.`,
  );
}

/** With usage, which every response contains; a server's other options are kept. */
function streamOptions(given: unknown): JsonObject {
  if (!isObject(given)) return { include_usage: true };
  const { include_obfuscation: _unpadded, ...rest } = given;
  const kept = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  return { ...kept, include_usage: true };
}

function textMembers(text: unknown): { readonly ok: true; readonly members: JsonObject } | Refused {
  const members: Record<string, unknown> = {};
  if (!isObject(text)) return { ok: true, members };
  for (const option in text) {
    const value = text[option];
    if (isUnset(value)) continue;
    if (option === 'verbosity') {
      if (value !== 'medium') members['verbosity'] = value;
    } else if (option === 'format' && isObject(value)) {
      const format = responseFormat(value);
      if (!format.ok) return format;
      if (format.value !== undefined) members['response_format'] = format.value;
    } else {
      return unsupported(`text.${option}`);
    }
  }
  return { ok: true, members };
}

function responseFormat(format: JsonObject): { readonly ok: true; readonly value?: JsonObject } | Refused {
  const type = format['type'] ?? 'text';
  if (type === 'text') return { ok: true };
  if (type === 'json_object') return { ok: true, value: { type } };
  if (type !== 'json_schema') return unsupported('text.format.type');
  const { type: _type, json_schema: nested, ...flat } = format;
  const schema: Record<string, unknown> = { name: 'response' };
  for (const [member, value] of Object.entries(isObject(nested) ? nested : flat)) {
    if (value !== null) schema[member] = value;
  }
  return { ok: true, value: { type, json_schema: schema } };
}

function logprobMembers(body: JsonObject): JsonObject {
  const include = body['include'];
  const top = typeof body['top_logprobs'] === 'number' ? body['top_logprobs'] : 0;
  const included = Array.isArray(include) && include.includes('message.output_text.logprobs');
  if (top > 0) return { logprobs: true, top_logprobs: top };
  return included ? { logprobs: true } : {};
}

/**
 * The values of `include`, and their effect on a translated response.
 *
 * | Value | Translated |
 * |---|---|
 * | `message.output_text.logprobs` | `logprobs` of the chat request; they come with the text |
 * | `reasoning.encrypted_content` | see reasoning.ts |
 * | `reasoning.content` | the gateway's own: reasoning as raw text in `content`, not as a summary |
 * | `message.input_image.image_url` | no effect: input items are stored unchanged |
 * | results of hosted tools | no effect: none are executed, so there are none |
 * | any other | refused: its meaning is unknown |
 */
const known = new Set([
  'message.output_text.logprobs',
  'reasoning.encrypted_content',
  'reasoning.content',
  'message.input_image.image_url',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'computer_call_output.output.image_url',
  'code_interpreter_call.outputs',
]);

function refusedInclude(include: unknown): Refused | undefined {
  if (!Array.isArray(include)) return undefined;
  const index = include.findIndex((value) => typeof value !== 'string' || !known.has(value));
  if (index === -1) return undefined;
  return refuse(
    'unsupported_value',
    `include[${index}]`,
    `This model's provider cannot include '${String(include[index])}'. It can include ${[...known].join(', ')}.`,
  );
}

// A refusal with the names of the Responses API, since the client did not send the chat request it refers to.

const responsesNames: ReadonlyMap<string, string> = new Map([
  ['logprobs', 'include'],
  ['max_completion_tokens', 'max_output_tokens'],
  ['max_tokens', 'max_output_tokens'],
  ['reasoning_effort', 'reasoning.effort'],
  ['response_format', 'text.format'],
  ['verbosity', 'text.verbosity'],
]);

/** Converts a refusal of a chat member that a provider's own dialect lacks to the names of the Responses API. */
export function withResponsesNames(refusal: TranslationRefusal): TranslationRefusal {
  const { param } = refusal;
  if (param === null) return refusal;
  const [, name = '', rest = ''] = /^([^.[]*)(.*)$/s.exec(param) ?? [];
  // Items and messages do not correspond one to one, so only the message names the item.
  if (name === 'messages') return { ...refusal, param: 'input' };
  const known = responsesNames.get(name);
  if (known === undefined) return { ...refusal, message: withOwnNames(refusal.message) };
  const message = withOwnNames(refusal.message.replaceAll(`'${name}${rest}'`, () => `'${name}'`));
  return { ...refusal, param: known, message };
}

/** Replaces each quoted parameter name by the client's name of it. */
function withOwnNames(message: string): string {
  return message.replace(/'(\w+)'/g, (quoted, name: string) => {
    const known = responsesNames.get(name);
    return known === undefined ? quoted : `'${known}'`;
  });
}

/**
 * The place in the input as the client sent it.
 * @param earlier number of items of earlier turns that were put in front of it
 */
export function ofNewInput(refusal: TranslationRefusal, earlier: number): TranslationRefusal {
  const [whole, index, rest = ''] = /^input\[(\d+)\](.*)$/s.exec(refusal.param ?? '') ?? [];
  if (earlier === 0 || whole === undefined) return refusal;
  const place = Number(index) - earlier;
  if (place >= 0) {
    const param = `input[${place}]${rest}`;
    return { ...refusal, param, message: refusal.message.replaceAll(whole, () => param) };
  }
  const message = `In the earlier turns that belong to this request: ${refusal.message}`;
  return { ...refusal, param: 'input', message };
}
