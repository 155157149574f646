/**
 * `system` and `messages` as chat messages.
 *
 * | Messages | Chat |
 * |---|---|
 * | `system` | first system message, its blocks as paragraphs; Claude Code's `x-anthropic-billing-header` block is for Anthropic only, differs each time, and is left out |
 * | message of the user | user message; adjacent ones become one, as with Anthropic |
 * | `tool_result` | `tool` message, directly after its call and before other content of the user; its images and files follow in the user message, since a tool message holds text only. `is_error` becomes text |
 * | message of the assistant | assistant message; as the last one it is the beginning of the answer, as it is |
 * | `tool_use` | tool call of that message |
 * | `thinking` | reasoning of that message, where the provider accepts it (see reasoning.ts) |
 * | `redacted_thinking` | left out: only Anthropic can read it |
 * | a record of Anthropic's own work (`server_tool_use`, `web_search_tool_result`, `compaction`, …) | left out: its result is in the text that follows, or in the messages before |
 * | message of the role `system` | before the first assistant message: part of the first system message; after that, `<system>` text in the user's turn. Many models accept a system message in no other place, and Claude Code sends one in mid-conversation with every request |
 * | such a message that is to be cleared at the user's next turn | left out from that turn on |
 * | `output_config` of such a message | refused |
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse, refuseMissing } from '../json.ts';
import { compact, isPlainText, joinedContent, textOf } from '../responses-to-chat/content-parts.ts';
import type { ChatMessage, ChatMessages } from '../responses-to-chat/items-to-chat-messages.ts';
import type { ReasoningStyle } from '../responses-to-chat/reasoning.ts';
import { thoughtIn } from './message-object.ts';

const BILLING = 'x-anthropic-billing-header:';
const ANTHROPICS_RECORD = /^(server_tool_use|mcp_tool_use|mcp_tool_listing|compaction|fallback|.+_tool_result)$/;

export function chatMessagesFromMessages(body: JsonObject, style: ReasoningStyle): ChatMessages | Refused {
  const given: readonly unknown[] = Array.isArray(body['messages']) ? body['messages'] : [];
  const lastOfUser = given.findLastIndex((message) => roleOf(message) === 'user');
  const first = systemText(body['system'], 'system');
  if (!first.ok) return first;
  const system = [first.text];
  const messages: ChatMessage[] = [];
  let isAnswered = false;
  for (const [index, message] of given.entries()) {
    const path = `messages[${index}]`;
    if (!isObject(message)) return refuse('invalid_type', path, `${path} must be an object.`);
    if (index < lastOfUser && message['clear_at'] === 'next_user_message') continue;
    const refused = addMessage(system, messages, message, path, style, isAnswered);
    if (refused !== undefined) return refused;
    isAnswered ||= message['role'] === 'assistant';
  }
  const joined = system.filter((text) => text !== '').join('\n\n');
  return { ok: true, messages: joined === '' ? messages : [{ role: 'system', content: joined }, ...messages] };
}

function roleOf(message: unknown): unknown {
  return isObject(message) ? message['role'] : undefined;
}

function addMessage(
  system: string[],
  messages: ChatMessage[],
  message: JsonObject,
  path: string,
  style: ReasoningStyle,
  isAnswered: boolean,
): Refused | undefined {
  switch (message['role']) {
    case 'user':
      return addUserMessage(messages, message['content'], `${path}.content`);
    case 'assistant':
      return addAssistantMessage(messages, message['content'], `${path}.content`, style);
    case 'system':
      return addSystemMessage(system, messages, message, path, isAnswered);
    default:
      return refuse('invalid_value', `${path}.role`, `${path}.role must be 'user', 'assistant' or 'system'.`);
  }
}

function systemText(system: unknown, path: string): { readonly ok: true; readonly text: string } | Refused {
  const translated = partsOf(system, path);
  if (!translated.ok) return translated;
  const texts = textOf(translated.parts);
  return { ok: true, text: texts.filter((text) => !text.startsWith(BILLING)).join('\n\n') };
}

function addSystemMessage(
  system: string[],
  messages: ChatMessage[],
  message: JsonObject,
  path: string,
  isAnswered: boolean,
): Refused | undefined {
  const { content, output_config: output } = message;
  if (isObject(output) && Object.values(output).some((value) => value !== null)) {
    const param = `${path}.output_config`;
    return refuse('unsupported_parameter', param, `'${param}' needs a provider with Anthropic's own API.`);
  }
  const translated = systemText(content, `${path}.content`);
  if (!translated.ok) return translated;
  const { text } = translated;
  if (text === '') return undefined;
  if (isAnswered) {
    return addUserMessage(messages, `<system>\n${text}\n</system>`, path);
  }
  system.push(text);
  return undefined;
}

function addUserMessage(messages: ChatMessage[], content: unknown, path: string): Refused | undefined {
  if (content === undefined || content === null) return refuseMissing(path);
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [];
  const results: ChatMessage[] = [];
  const parts: JsonObject[] = [];
  for (const [index, block] of blocks.entries()) {
    const at = `${path}[${index}]`;
    const result = isObject(block) && block['type'] === 'tool_result' ? toolResult(block, at) : undefined;
    const blockParts = result ?? partsOfBlock(block, at);
    if (!blockParts.ok) return blockParts;
    if (result?.ok) results.push(result.message);
    parts.push(...blockParts.parts);
  }
  if (typeof content === 'string') parts.push({ type: 'text', text: content });
  // Adjacent messages are one turn of the user: results follow the calls, also those of a later message.
  messages.splice(messages.at(-1)?.role === 'user' ? -1 : messages.length, 0, ...results);
  if (parts.length === 0 && results.length > 0) return undefined;
  const last = messages.at(-1);
  if (last?.role === 'user') last.content = joinedContent(last.content, parts);
  else messages.push({ role: 'user', content: compact(parts, 'user') });
  return undefined;
}

interface ToolResult {
  readonly ok: true;
  readonly message: ChatMessage;
  /** Parts that a tool message cannot hold. */
  readonly parts: readonly JsonObject[];
}

function toolResult(block: JsonObject, path: string): ToolResult | Refused {
  const id = filled(block['tool_use_id']);
  if (id === undefined) return refuseMissing(`${path}.tool_use_id`);
  const translated = partsOf(block['content'], `${path}.content`);
  if (!translated.ok) return translated;
  const media = translated.parts.filter((part) => part['type'] !== 'text');
  let content = textOf(translated.parts).join('\n');
  if (content === '' && media.length > 0) content = 'The result follows in the next user message.';
  if (block['is_error'] === true) content = `The tool failed: ${content}`;
  const message: ChatMessage = { role: 'tool', tool_call_id: id, content };
  const label = { type: 'text', text: `Result of tool call ${id}:` };
  return { ok: true, message, parts: media.length === 0 ? [] : [label, ...media] };
}

function addAssistantMessage(
  messages: ChatMessage[],
  content: unknown,
  path: string,
  style: ReasoningStyle,
): Refused | undefined {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : [{ type: 'text', text: content }];
  let text = '';
  let reasoning = '';
  const calls: JsonObject[] = [];
  for (const [index, block] of blocks.entries()) {
    const at = `${path}[${index}]`;
    if (!isObject(block)) return refuse('invalid_type', at, `${at} must be an object.`);
    const type = String(block['type']);
    if (type === 'thinking') reasoning += thoughtIn(block);
    else if (type === 'tool_use') {
      const translated = toolCall(block, at);
      if ('ok' in translated) return translated;
      calls.push(translated.call);
    } else if (type !== 'redacted_thinking' && !ANTHROPICS_RECORD.test(type)) {
      const translated = partsOfBlock(block, at);
      if (!translated.ok) return translated;
      if (!translated.parts.every(isPlainText)) {
        return refuse('unsupported_value', `${at}.type`, `An assistant message cannot hold a block of type '${type}'.`);
      }
      text += textOf(translated.parts).join('');
    }
  }
  const message: ChatMessage = { role: 'assistant', content: text === '' && calls.length > 0 ? null : text };
  if (reasoning !== '' && style.replay !== 'omit') message[style.replay] = reasoning;
  if (calls.length > 0) message.tool_calls = calls;
  messages.push(message);
  return undefined;
}

function toolCall(block: JsonObject, path: string): { readonly call: JsonObject } | Refused {
  const id = filled(block['id']);
  if (id === undefined) return refuseMissing(`${path}.id`);
  const name = filled(block['name']);
  if (name === undefined) return refuseMissing(`${path}.name`);
  const { input, extra_content: extra } = block;
  const args = typeof input === 'string' ? input : JSON.stringify(input ?? {});
  const call = { id, type: 'function', function: { name, arguments: args } };
  return { call: isObject(extra) ? { ...call, extra_content: extra } : call };
}

/**
 * Content blocks as parts of a chat message. `cache_control`, a mark for Anthropic's cache, is dropped.
 *
 * | Block | Part |
 * |---|---|
 * | `text` | `text` |
 * | `image` as base64 or by its URL | `image_url` |
 * | `document`: PDF as base64 | `file` |
 * | `document`: plain text, or blocks of content | `text` under its title and context; the blocks |
 * | `search_result` | `text` under its title and source |
 * | `tool_reference` | `text`: the tool's name; every tool is sent anyway |
 * | a `document` with citations, or by its URL; anything by a file id; any other type | refused: leaving it out would change the meaning |
 */
interface BlockParts {
  readonly ok: true;
  readonly parts: readonly JsonObject[];
}

/** @param path of the blocks in the request, for refusals */
function partsOf(content: unknown, path: string): BlockParts | Refused {
  if (typeof content === 'string') return { ok: true, parts: content === '' ? [] : [text(content)] };
  if (content === undefined || content === null) return { ok: true, parts: [] };
  if (!Array.isArray(content)) return refuse('invalid_type', path, `${path} must be text or a list of content blocks.`);
  const parts: JsonObject[] = [];
  for (const [index, block] of content.entries()) {
    const translated = partsOfBlock(block, `${path}[${index}]`);
    if (!translated.ok) return translated;
    parts.push(...translated.parts);
  }
  return { ok: true, parts };
}

function partsOfBlock(block: unknown, path: string): BlockParts | Refused {
  if (!isObject(block)) return refuse('invalid_type', path, `${path} must be an object.`);
  switch (block['type']) {
    case 'text':
      return partsOf(filled(block['text']) ?? '', path);
    case 'image':
      return imageParts(block['source'], path);
    case 'document':
      return documentParts(block, path);
    case 'search_result':
      return under([filled(block['title']), filled(block['source'])], partsOf(block['content'], `${path}.content`));
    case 'tool_reference':
      return one(text(`Tool: ${String(block['tool_name'])}`));
    default:
      return unsupportedContent(`${path}.type`, `content blocks of type '${String(block['type'])}'`);
  }
}

function imageParts(source: unknown, path: string): BlockParts | Refused {
  const given = isObject(source) ? source : {};
  const url = given['type'] === 'url' ? filled(given['url']) : dataUrl(given);
  if (url !== undefined) return one({ type: 'image_url', image_url: { url } });
  return unsupportedContent(`${path}.source`, 'an image that is neither an address nor base64 data');
}

function documentParts({ citations, source, title, context }: JsonObject, path: string): BlockParts | Refused {
  if (isObject(citations) && citations['enabled'] === true) return unsupportedContent(`${path}.citations`, 'citations');
  const headings = [filled(title), filled(context)];
  const given = isObject(source) ? source : {};
  if (given['type'] === 'text') return under(headings, partsOf(given['data'], `${path}.source.data`));
  if (given['type'] === 'content') return under(headings, partsOf(given['content'], `${path}.source.content`));
  const data = dataUrl(given);
  if (data === undefined)
    return unsupportedContent(`${path}.source`, 'a document that is neither text nor base64 data');
  const file = { filename: filled(title) ?? 'document.pdf', file_data: data };
  return under([undefined, filled(context)], one({ type: 'file', file }));
}

function dataUrl(source: JsonObject): string | undefined {
  const data = filled(source['data']);
  const mediaType = filled(source['media_type']);
  if (source['type'] !== 'base64' || data === undefined || mediaType === undefined) return undefined;
  return `data:${mediaType};base64,${data}`;
}

/** The parts with the given lines in front, if there are any. */
function under(lines: readonly (string | undefined)[], translated: BlockParts | Refused): BlockParts | Refused {
  const heading = lines.filter((line) => line !== undefined).join('\n');
  if (!translated.ok || heading === '') return translated;
  const [first, ...rest] = translated.parts;
  if (first === undefined || typeof first['text'] !== 'string')
    return { ok: true, parts: [text(heading), ...translated.parts] };
  return { ok: true, parts: [text(`${heading}\n\n${first['text']}`), ...rest] };
}

function one(part: JsonObject): BlockParts {
  return { ok: true, parts: [part] };
}

function text(content: string): JsonObject {
  return { type: 'text', text: content };
}

function unsupportedContent(param: string, what: string): Refused {
  return refuse(
    'unsupported_value',
    param,
    `'${param}': this model's provider cannot take ${what}. A provider with Anthropic's own API can.`,
  );
}
