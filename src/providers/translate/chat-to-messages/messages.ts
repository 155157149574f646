/**
 * Chat messages in the format of the Messages API, where turns alternate and the system prompt is separate.
 *
 * | Chat | Messages |
 * |---|---|
 * | `system`, `developer`, at any place | `system`, in their order |
 * | `user` | a user turn; adjacent ones are one turn |
 * | `assistant` | an assistant turn: its thinking, its text, its calls |
 * | `tool` | `tool_result` at the head of the user turn that follows the calls, all of one turn together |
 * | `function` | refused: the older form has no ids to match calls by |
 *
 * Reasoning without a signature is left out, since Anthropic does not accept it. Anthropic has no names of
 * participants.
 */
import { isObject } from '../../../json/is-object.ts';
import {
  callArguments,
  filled,
  type JsonObject,
  parseDataUrl,
  type Refused,
  refuse,
  refuseMissing,
  withoutNulls,
} from '../json.ts';

export interface MessageTurn {
  readonly role: 'user' | 'assistant';
  readonly content: readonly JsonObject[];
}

interface MessageTurns {
  readonly ok: true;
  readonly system: readonly JsonObject[];
  readonly turns: readonly MessageTurn[];
}

interface OpenTurn extends MessageTurn {
  /** Results of tools: they come first. */
  readonly results: JsonObject[];
  readonly content: JsonObject[];
}

export function turnsOf(messages: unknown): MessageTurns | Refused {
  if (!Array.isArray(messages)) return refuse('invalid_type', 'messages', "'messages' must be an array.");
  const draft: Draft = { system: [], turns: [] };
  for (const [index, message] of messages.entries()) {
    const path = `messages[${index}]`;
    if (!isObject(message)) return refuse('invalid_type', path, `${path} must be an object.`);
    const refused = addMessage(draft, message, path);
    if (refused !== undefined) return refused;
  }
  if (draft.turns.length === 0) {
    return refuse('invalid_value', 'messages', "'messages' holds no message besides instructions.");
  }
  const turns = draft.turns.map(({ role, results, content }) => ({ role, content: [...results, ...content] }));
  return { ok: true, system: draft.system, turns };
}

interface Draft {
  readonly system: JsonObject[];
  readonly turns: OpenTurn[];
}

function addMessage(draft: Draft, message: JsonObject, path: string): Refused | undefined {
  const { role, content } = message;
  const translated = contentBlocks(content, `${path}.content`);
  if (!translated.ok) return translated;
  const blocks = withMarker(translated.blocks, message['cache_control']);
  switch (role) {
    case 'system':
    case 'developer': {
      const other = blocks.findIndex(({ type }) => type !== 'text');
      if (other !== -1) return refuse('unsupported_value', `${path}.content`, 'Instructions can be text only.');
      draft.system.push(...blocks);
      return undefined;
    }
    case 'user':
      if (blocks.length > 0) turnOf(draft, 'user').content.push(...blocks);
      return undefined;
    case 'assistant':
      return addAssistant(draft, message, blocks, path);
    case 'tool':
      return addResult(draft, message, blocks, path);
    default:
      return refuse('unsupported_value', `${path}.role`, `Messages of role '${String(role)}' cannot be translated.`);
  }
}

/** The last turn if it has this role, else a new one. */
function turnOf({ turns }: Draft, role: MessageTurn['role']): OpenTurn {
  const last = turns.at(-1);
  if (last?.role === role) return last;
  const turn: OpenTurn = { role, results: [], content: [] };
  turns.push(turn);
  return turn;
}

/** Some clients mark a message, not a part, as the end of the cached prefix. */
function withMarker(blocks: readonly JsonObject[], marker: unknown): readonly JsonObject[] {
  const last = blocks.at(-1);
  return isObject(marker) && last !== undefined ? [...blocks.slice(0, -1), { ...last, cache_control: marker }] : blocks;
}

function addAssistant(
  draft: Draft,
  message: JsonObject,
  contentBlocks: readonly JsonObject[],
  path: string,
): Refused | undefined {
  const calls: JsonObject[] = [];
  /** Thinking before the first call, and what is known of all. */
  const thought: KeptBlock[] = [];
  const known = new Set<unknown>();
  const given = message['tool_calls'] ?? [];
  if (!Array.isArray(given))
    return refuse('invalid_type', `${path}.tool_calls`, `${path}.tool_calls must be an array.`);
  for (const [index, call] of given.entries()) {
    const translated = toolUse(call, `${path}.tool_calls[${index}]`);
    if ('ok' in translated) return translated;
    // Thinking between two calls stays between them.
    const before = withoutKnown(keptBlocks(isObject(call) ? call['extra_content'] : undefined), known);
    if (index === 0) thought.push(...before);
    else {
      calls.push(...before.map(({ block }) => block));
    }
    calls.push(translated.block);
  }
  thought.push(...withoutKnown(keptBlocks(message['extra_content']), known));
  const blocks = [...interleaved(contentBlocks, thought), ...calls];
  if (blocks.length > 0) turnOf(draft, 'assistant').content.push(...blocks);
  return undefined;
}

/** Puts each block at its place in the text. */
function interleaved(contentBlocks: readonly JsonObject[], thought: readonly KeptBlock[]): JsonObject[] {
  const blocks: JsonObject[] = [];
  const waiting = thought.toSorted((one, other) => one.afterText - other.afterText);
  let at = 0;
  for (const block of contentBlocks) {
    const text = block['type'] === 'text' ? (filled(block['text']) ?? '') : '';
    let cut = 0;
    for (let next = waiting[0]; next !== undefined && next.afterText < at + text.length; next = waiting[0]) {
      const place = Math.max(cut, next.afterText - at);
      if (place > cut) blocks.push({ ...block, text: text.slice(cut, place) });
      cut = place;
      blocks.push(next.block);
      waiting.shift();
    }
    blocks.push(cut === 0 ? block : { ...block, text: text.slice(cut) });
    at += text.length;
  }
  return [...blocks, ...waiting.map(({ block }) => block)];
}

function toolUse(call: unknown, path: string): { readonly block: JsonObject } | Refused {
  const called = isObject(call) ? call['function'] : undefined;
  if (!isObject(call) || !isObject(called)) {
    return refuse('unsupported_value', path, `${path} must be the call of a function.`);
  }
  const id = filled(call['id']);
  if (id === undefined) return refuseMissing(`${path}.id`);
  const name = filled(called['name']);
  if (name === undefined) return refuseMissing(`${path}.function.name`);
  const input = callArguments(called['arguments']);
  if (input === undefined) {
    const at = `${path}.function.arguments`;
    return refuse('invalid_value', at, `${at} must be the text of a JSON object; Anthropic takes nothing else.`);
  }
  const marker = call['cache_control'];
  const block = { type: 'tool_use', id: toolUseId(id), name, input };
  return { block: isObject(marker) ? { ...block, cache_control: marker } : block };
}

function addResult(
  draft: Draft,
  message: JsonObject,
  blocks: readonly JsonObject[],
  path: string,
): Refused | undefined {
  const id = filled(message['tool_call_id']);
  if (id === undefined) return refuseMissing(`${path}.tool_call_id`);
  const result: Record<string, unknown> = { type: 'tool_result', tool_use_id: toolUseId(id) };
  const content = plainText(blocks);
  if (content === undefined) result['content'] = blocks;
  else if (content !== '') result['content'] = content;
  if (anthropicMembers(message['extra_content'])['is_error'] === true) result['is_error'] = true;
  turnOf(draft, 'user').results.push(result);
  return undefined;
}

/** The text of at most one plain text block; undefined when the blocks contain more. */
export function plainText(blocks: readonly JsonObject[]): string | undefined {
  const [block, ...more] = blocks;
  if (block === undefined) return '';
  const { type, text, ...rest } = block;
  const isPlain = type === 'text' && typeof text === 'string' && more.length === 0;
  return isPlain && Object.keys(rest).length === 0 ? text : undefined;
}

/** Ids of other providers may contain characters that Anthropic refuses. Calls and results change alike. */
function toolUseId(id: string): string {
  return id.replace(/[^a-zA-Z0-9_-]/g, '_');
}

/**
 * Parts of a chat message as content blocks of the Messages API.
 *
 * | Chat | Messages |
 * |---|---|
 * | `text`, `refusal` | `text`; empty ones are left out, since Anthropic refuses an empty block |
 * | `image_url` with a data URL, or another URL | `image` with a `base64`, or a `url` source |
 * | `file` with a PDF or a text as data URL | `document` with a `base64`, or a `text` source |
 * | `file` with an image as data URL | `image` |
 * | `file` with `file_url` | `document` with a `url` source |
 * | `file` with `file_id` | refused: the id belongs to another provider |
 * | `input_audio` | refused: Anthropic's models accept no audio |
 * | any other type (`document`, `search_result`, …) | unchanged: it is the provider's own, or the provider refuses it |
 *
 * `cache_control` and other members beside a part's own are kept.
 */
interface ContentBlocks {
  readonly ok: true;
  readonly blocks: readonly JsonObject[];
}

/** The beginning of a PDF in base64: `%PDF-`. */
const PDF_BEGINS = 'JVBERi';

/** @param path of the content in the request, for refusals */
function contentBlocks(content: unknown, path: string): ContentBlocks | Refused {
  if (content === null || content === undefined || content === '') return { ok: true, blocks: [] };
  if (typeof content === 'string') return { ok: true, blocks: [{ type: 'text', text: content }] };
  if (!Array.isArray(content)) return refuse('invalid_type', path, `${path} must be a string or an array of parts.`);
  const blocks: JsonObject[] = [];
  for (const [index, part] of content.entries()) {
    const at = `${path}[${index}]`;
    const given: unknown = typeof part === 'string' ? { type: 'text', text: part } : part;
    if (!isObject(given)) return refuse('invalid_type', at, `${at} must be an object.`);
    const translated = contentBlock(given, at);
    if ('ok' in translated) return translated;
    if (translated.block !== undefined) blocks.push(translated.block);
  }
  return { ok: true, blocks };
}

type Translated = { readonly block: JsonObject | undefined } | Refused;

function contentBlock(part: JsonObject, path: string): Translated {
  const { type } = part;
  switch (type) {
    case 'text':
    case 'refusal': {
      const { type: _type, text, refusal, ...rest } = part;
      const content = filled(type === 'text' ? text : refusal);
      return { block: content === undefined ? undefined : { type: 'text', text: content, ...withoutNulls(rest) } };
    }
    case 'image_url':
      return imageBlock(part, path);
    case 'file':
      return documentBlock(part, path);
    case 'input_audio':
      return refuse('unsupported_value', `${path}.type`, 'Audio input cannot be given to an Anthropic model.');
    default:
      return { block: part };
  }
}

function imageBlock({ type: _type, image_url, ...rest }: JsonObject, path: string): Translated {
  const url = filled(isObject(image_url) ? image_url['url'] : image_url);
  const source = url === undefined ? undefined : imageSource(url);
  if (source !== undefined) return { block: { type: 'image', source, ...withoutNulls(rest) } };
  return refuse('invalid_value', `${path}.image_url`, 'An image must be given as a data URL or an http(s) address.');
}

function imageSource(url: string): JsonObject | undefined {
  const data = parseDataUrl(url);
  if (data !== undefined) return { type: 'base64', media_type: imageType(data.mediaType), data: data.base64 };
  return /^https?:\/\//i.test(url) ? { type: 'url', url } : undefined;
}

/** Clients send `image/jpg`, which is not a registered type and not accepted. */
function imageType(mediaType: string): string {
  return mediaType === 'image/jpg' ? 'image/jpeg' : mediaType;
}

function documentBlock({ type: _type, file, ...rest }: JsonObject, path: string): Translated {
  const given = isObject(file) ? file : {};
  const title = filled(given['filename']);
  const beside = { ...(title === undefined ? {} : { title }), ...withoutNulls(rest) };
  const data = filled(given['file_data']);
  const url = filled(given['file_url']);
  if (data !== undefined) {
    const content = parseDataUrl(data) ?? barePdf(data);
    if (content?.mediaType.startsWith('image/') === true) {
      const source = { type: 'base64', media_type: imageType(content.mediaType), data: content.base64 };
      return { block: { type: 'image', source, ...withoutNulls(rest) } };
    }
    const source = content === undefined ? undefined : documentSource(content.mediaType, content.base64);
    if (source !== undefined) return { block: { type: 'document', source, ...beside } };
    const message = 'A file must be given as a data URL of a PDF, a text or an image.';
    return refuse('unsupported_value', `${path}.file.file_data`, message);
  }
  if (url !== undefined) return { block: { type: 'document', source: { type: 'url', url }, ...beside } };
  const message = 'A file must be given in file_data: an uploaded file cannot be looked up.';
  return refuse('unsupported_value', `${path}.file`, message);
}

function documentSource(mediaType: string, base64: string): JsonObject | undefined {
  if (mediaType === 'application/pdf') return { type: 'base64', media_type: mediaType, data: base64 };
  const isText = mediaType.startsWith('text/') || mediaType === 'application/json';
  if (!isText) return undefined;
  return { type: 'text', media_type: 'text/plain', data: Buffer.from(base64, 'base64').toString() };
}

/** OpenAI also accepts a file's base64 without the head of a data URL. */
function barePdf(data: string): { mediaType: string; base64: string } | undefined {
  return data.startsWith(PDF_BEGINS) ? { mediaType: 'application/pdf', base64: data } : undefined;
}

// A model's thinking in the form that Anthropic accepts in later requests: whole blocks with their signatures. They are
// in `extra_content.anthropic.thinking_blocks` of the message, and again of the tool call that they led to, since some
// clients send back the one and some the other. Blocks found in both count once.
//
// Anthropic requires the blocks at their original places. For blocks before calls, the call determines the place; a
// block after some of the message's text has the number of preceding characters in `after_text`.

export interface KeptBlock {
  readonly block: JsonObject;
  /** Length of the message's text before it. */
  readonly afterText: number;
}

const VENDOR = 'anthropic';
const BLOCKS = 'thinking_blocks';
const PLACE = 'after_text';

export function isThinking(block: unknown): block is JsonObject {
  return isObject(block) && (block['type'] === 'thinking' || block['type'] === 'redacted_thinking');
}

/** The `extra_content` with these blocks. */
export function extraContentWith(blocks: readonly KeptBlock[]): JsonObject {
  const placed = blocks.map(({ block, afterText }) => (afterText === 0 ? block : { ...block, [PLACE]: afterText }));
  return { [VENDOR]: { [BLOCKS]: placed } };
}

/** Anthropic's part of an `extra_content`. */
function anthropicMembers(extraContent: unknown): JsonObject {
  const own = isObject(extraContent) ? extraContent[VENDOR] : undefined;
  return isObject(own) ? own : {};
}

function keptBlocks(extraContent: unknown): KeptBlock[] {
  const blocks = anthropicMembers(extraContent)[BLOCKS];
  if (!Array.isArray(blocks)) return [];
  return blocks.filter(isThinking).map(({ [PLACE]: place, ...block }) => ({
    block,
    afterText: typeof place === 'number' && place > 0 ? place : 0,
  }));
}

/** The blocks without duplicates and without already known ones. @param seen gets what identifies each */
function withoutKnown(blocks: readonly KeptBlock[], seen = new Set<unknown>()): KeptBlock[] {
  return blocks.filter((kept) => {
    const identity = identityOf(kept);
    if (seen.has(identity)) return false;
    seen.add(identity);
    return true;
  });
}

/** A signature identifies one block; so does redacted data. */
function identityOf({ block }: KeptBlock): unknown {
  return block['signature'] ?? block['data'] ?? block['thinking'];
}
