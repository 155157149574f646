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
import { isObject } from '../../../json/is-object.ts';
import { parseDataUrl } from '../data-url.ts';
import { callArguments, filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';

export interface OllamaMessages {
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

export function ollamaMessages(messages: unknown): OllamaMessages | Refused {
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
