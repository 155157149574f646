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
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';

export interface BlockParts {
  readonly ok: true;
  readonly parts: readonly JsonObject[];
}

/** @param path of the blocks in the request, for refusals */
export function partsOf(content: unknown, path: string): BlockParts | Refused {
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

export function partsOfBlock(block: unknown, path: string): BlockParts | Refused {
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
