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
import { isObject } from '../../../json/is-object.ts';
import { parseDataUrl } from '../data-url.ts';
import { filled, type JsonObject, withoutNulls } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';

export interface ContentBlocks {
  readonly ok: true;
  readonly blocks: readonly JsonObject[];
}

/** The beginning of a PDF in base64: `%PDF-`. */
const PDF_BEGINS = 'JVBERi';

/** @param path of the content in the request, for refusals */
export function contentBlocks(content: unknown, path: string): ContentBlocks | Refused {
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
