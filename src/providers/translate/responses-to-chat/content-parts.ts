/**
 * Parts of a message in the format of chat completions.
 *
 * | Responses | Chat |
 * |---|---|
 * | `input_text`, `output_text`, `text` | `text` |
 * | `refusal` | `text`: the assistant's refusal |
 * | `input_image` (URL as a string or `{url, detail}`), `image_url` | `image_url` |
 * | `input_image` with only a `file_id` | refused: chat completions have no way to name a stored image |
 * | `input_audio` | the same |
 * | `input_file` (flat), `file` | `file` |
 * | any other type | unchanged: some servers support more, and others refuse it |
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse } from '../json.ts';

interface ChatParts {
  readonly ok: true;
  readonly parts: readonly JsonObject[];
}

/** Members of stored items that have no meaning in a request, and the hint for prompt cache boundaries. */
const leftOut = new Set([
  'type',
  'text',
  'refusal',
  'annotations',
  'logprobs',
  'id',
  'status',
  'prompt_cache_breakpoint',
]);

/** @param path of the content in the request, for refusals */
export function chatParts(content: readonly unknown[], path: string): ChatParts | Refused {
  const parts: JsonObject[] = [];
  for (const [index, part] of content.entries()) {
    if (typeof part === 'string') {
      parts.push({ type: 'text', text: part });
      continue;
    }
    if (!isObject(part)) return refuse('invalid_type', `${path}[${index}]`, `${path}[${index}] must be an object.`);
    const translated = chatPart(part, `${path}[${index}]`);
    if ('ok' in translated) return translated;
    parts.push(translated.part);
  }
  return { ok: true, parts };
}

function chatPart(part: JsonObject, path: string): { readonly part: JsonObject } | Refused {
  switch (part['type']) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return { part: { type: 'text', text: filled(part['text']) ?? '', ...rest(part, leftOut) } };
    case 'refusal':
      return { part: { type: 'text', text: filled(part['refusal']) ?? '' } };
    case 'input_image':
    case 'image_url':
      return imagePart(part, path);
    case 'input_audio':
      return { part: rest(part, new Set(['prompt_cache_breakpoint'])) };
    case 'input_file':
    case 'file':
      return { part: filePart(part) };
    default:
      return { part };
  }
}

function imagePart(part: JsonObject, path: string): { readonly part: JsonObject } | Refused {
  const image = part['image_url'];
  const given = isObject(image) ? withoutNulls(image) : { url: image };
  if (filled(given['url']) === undefined) {
    return refuse(
      'invalid_value',
      `${path}.image_url`,
      "This model's provider takes an image as an address or a data URL in 'image_url'; it cannot look up a file id.",
    );
  }
  const detail = filled(part['detail']);
  return { part: { type: 'image_url', image_url: detail === undefined ? given : { detail, ...given } } };
}

function filePart(part: JsonObject): JsonObject {
  if (isObject(part['file'])) return { type: 'file', file: withoutNulls(part['file']) };
  return { type: 'file', file: rest(part, leftOut) };
}

function rest(part: JsonObject, except: ReadonlySet<string>): JsonObject {
  const kept: Record<string, unknown> = {};
  for (const member in part) {
    if (!except.has(member) && part[member] !== null) kept[member] = part[member];
  }
  return kept;
}

function withoutNulls(object: JsonObject): JsonObject {
  return rest(object, new Set());
}

/** Whether a chat part is only text, so that it can become a plain string. */
export function isPlainText(part: JsonObject): part is { readonly type: 'text'; readonly text: string } {
  if (part['type'] !== 'text' || typeof part['text'] !== 'string') return false;
  for (const member in part) {
    if (member !== 'type' && member !== 'text') return false;
  }
  return true;
}

/** The content of one message: a string, or parts in chat form. */
export type Content = string | readonly JsonObject[];

/** A string where the parts contain no more than one: many servers accept nothing else from an assistant. */
export function compact(parts: readonly JsonObject[], role: string): Content {
  if (parts.length === 0) return '';
  if (!parts.every(isPlainText)) return parts;
  if (parts.length === 1 || role === 'assistant') return textOf(parts).join('');
  return parts;
}

export function textOf(parts: readonly JsonObject[]): string[] {
  return parts.flatMap((part) => (part['type'] === 'text' ? [filled(part['text']) ?? ''] : []));
}

/** Lists that were made here, so that more can be appended to them: a copy for each message would be quadratic. */
const joined = new WeakSet<readonly JsonObject[]>();

/** Both contents, in order. The list that an earlier call returned is extended in place. */
export function joinedContent(before: Content | null, after: Content): Content | null {
  if (before === null || before === '') return after === '' ? before : after;
  if (typeof before === 'string' && typeof after === 'string') return before + after;
  const parts = ownParts(before);
  for (const part of asParts(after)) parts.push(part);
  return parts;
}

function ownParts(content: Content): JsonObject[] {
  if (isJoined(content)) return content;
  const parts = [...asParts(content)];
  joined.add(parts);
  return parts;
}

function isJoined(content: Content): content is JsonObject[] {
  return typeof content !== 'string' && joined.has(content);
}

function asParts(content: Content): readonly JsonObject[] {
  if (typeof content !== 'string') return content;
  return content === '' ? [] : [{ type: 'text', text: content }];
}
