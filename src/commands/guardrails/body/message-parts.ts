/** Contents and tools, which have similar shapes in several dialects. */
import { isObject } from '../../../json/is-object.ts';
import type { TextRole } from '../guarded-text.ts';
import type { JsonPath, TextCollector, TextOrigin } from './body-texts.ts';

export function roleNamed(role: unknown): TextRole {
  if (role === 'system' || role === 'developer') return 'system';
  if (role === 'assistant' || role === 'model') return 'assistant';
  return role === 'tool' || role === 'function' ? 'tool' : 'user';
}

/** Parts whose data are images, sounds or files. Names of files and texts around them are read. */
const media: ReadonlySet<unknown> = new Set([
  ...['image_url', 'input_image', 'image', 'input_audio', 'output_audio', 'video_url', 'input_video'],
]);

/** The content of a message of the chat or the Responses dialect: a string, or a list of parts. */
export function contentTexts(into: TextCollector, content: unknown, path: JsonPath, origin: TextOrigin): void {
  if (!Array.isArray(content)) {
    into.strings(content, path, origin);
    return;
  }
  for (const [index, part] of content.entries()) {
    const at = [...path, index];
    if (!isObject(part)) into.text(part, at, origin);
    else if (media.has(part['type'])) {
      into.unread(at);
      into.text(part['transcript'], [...at, 'transcript'], origin);
    } else if (part['type'] === 'file' || part['type'] === 'input_file') {
      into.unread(at);
      into.text(part['filename'], [...at, 'filename'], origin);
    } else if (part['type'] === 'refusal') into.strings(part, at, { ...origin, kind: 'refusal' });
    else if (typeof part['text'] === 'string') into.text(part['text'], [...at, 'text'], origin);
    else into.strings(part, at, origin);
  }
}

const described = new Set(['description', 'title', 'default', 'examples']);

/** Descriptions in tools and schemas. */
export function definitionTexts(into: TextCollector, value: unknown, path: JsonPath): void {
  const origin: TextOrigin = { role: 'system', kind: 'definition', message: -1 };
  if (Array.isArray(value)) {
    for (const [index, one] of value.entries()) definitionTexts(into, one, [...path, index]);
  } else if (isObject(value)) {
    for (const name in value) {
      const member = value[name];
      // A property of a schema may have the name of a keyword: then its value is a schema.
      if (described.has(name) && !isObject(member)) into.strings(member, [...path, name], origin);
      else definitionTexts(into, member, [...path, name]);
    }
  }
}

const identifying = ['user', 'safety_identifier', 'metadata'];

/** Members that name the end user, at the provider's side. */
export function identifierTexts(into: TextCollector, body: Readonly<Record<string, unknown>>): void {
  const origin: TextOrigin = { role: 'user', kind: 'identifier', message: -1 };
  for (const name of identifying) {
    if (isObject(body[name])) into.strings(body[name], [name], origin, true);
    else into.text(body[name], [name], origin);
  }
}
