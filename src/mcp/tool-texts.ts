/** The texts of a call of a tool and of its answer that guardrails read: all strings, wherever a server puts them. */
import type { GuardedBody, JsonPath, TextOrigin } from '../commands/guardrails/body/body-texts.ts';
import { isMedia, TextCollector } from '../commands/guardrails/body/body-texts.ts';
import { isObject } from '../json/is-object.ts';

/** Of `{ name, arguments }`: names of arguments are texts, too. */
export const toolArguments: GuardedBody = {
  texts(body) {
    const into = new TextCollector();
    const origin: TextOrigin = { role: 'assistant', kind: 'tool_arguments', message: 0 };
    if (isObject(body)) into.jsonText(body['arguments'], ['arguments'], origin);
    return into;
  },
};

const origin: TextOrigin = { role: 'tool', kind: 'tool_result', message: 0 };
const partTypes: ReadonlySet<unknown> = new Set(['text', 'image', 'audio', 'resource', 'resource_link']);
/** Names of members that the protocol has. Others are texts of the server. */
const ofParts: ReadonlySet<string> = new Set([
  ...['type', 'text', 'data', 'mimeType', 'resource', 'uri', 'name', 'title', 'description', 'annotations', '_meta'],
  ...['blob', 'size', 'icons'],
]);
const ofResults: ReadonlySet<string> = new Set(['content', 'structuredContent', 'isError', '_meta']);

/** Of a result with opened blobs. The data of images and sounds and binary blobs are not read. */
export const toolResult: GuardedBody = {
  texts(body) {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    // First the texts of the parts, which a reader takes for one.
    contentTexts(into, body['content'], ['content']);
    contentMembers(into, body['content'], ['content']);
    for (const name in body) {
      if (!ofResults.has(name)) into.name([name], origin);
      if (name !== 'content') into.jsonText(body[name], [name], origin);
    }
    return into;
  },
};

/** Of the `{ message, data }` of a JSON-RPC error. */
export const toolError: GuardedBody = {
  texts(body) {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    into.text(body['message'], ['message'], origin);
    into.jsonText(body['data'], ['data'], origin);
    return into;
  },
};

function contentTexts(into: TextCollector, value: unknown, path: JsonPath): void {
  if (typeof value === 'string') into.text(value, path, origin);
  else if (Array.isArray(value)) for (const [index, one] of value.entries()) contentTexts(into, one, [...path, index]);
  else if (isObject(value)) {
    into.text(value['text'], [...path, 'text'], origin);
    for (const name of ['resource', 'blob'])
      if (isObject(value[name])) contentTexts(into, value[name], [...path, name]);
  }
}

function contentMembers(into: TextCollector, value: unknown, path: JsonPath): void {
  if (Array.isArray(value)) for (const [index, one] of value.entries()) contentMembers(into, one, [...path, index]);
  else if (!isObject(value)) {
    if (typeof value === 'number') into.jsonText(value, path, origin);
  } else {
    for (const name in value) {
      const at = [...path, name];
      const member = value[name];
      if (!ofParts.has(name)) into.name(at, origin);
      if (name === 'text' && typeof member === 'string') continue;
      if (name === 'type' && partTypes.has(member)) continue;
      if (isObject(member) && (name === 'resource' || name === 'blob')) contentMembers(into, member, at);
      else if (name === 'data' ? isMediaData(value) : name === 'blob' && isBase64(member)) into.unread(at);
      else if (typeof member === 'string') into.text(member, at, origin);
      else into.jsonText(member, at, origin);
    }
  }
}

function isMediaData({ type, mimeType, data }: Readonly<Record<string, unknown>>): boolean {
  return (
    (type === 'image' || type === 'audio') && /^(?:image|audio)\/[\w.+-]+$/i.test(String(mimeType)) && isBase64(data)
  );
}

function isBase64(value: unknown): value is string {
  return typeof value === 'string' && (isMedia(value) || /^[A-Za-z0-9+/_-]*={0,2}$/.test(value));
}

/** The result with each blob that is a text in Base64 as `{ text }`. */
export function withOpenBlobs(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withOpenBlobs);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const text = name === 'blob' ? textIn(member, value['mimeType']) : undefined;
      return [name, text === undefined ? withOpenBlobs(member) : { text }];
    }),
  );
}

/** The reverse. */
export function withClosedBlobs(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withClosedBlobs);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      const text = name === 'blob' && isObject(member) ? member['text'] : undefined;
      return [name, typeof text === 'string' ? Buffer.from(text).toString('base64') : withClosedBlobs(member)];
    }),
  );
}

const textTypes = /^\s*(?:text\/|application\/(?:[\w.+-]*(?:json|xml|yaml|javascript)|x-www-form-urlencoded))/i;

/** Undefined for what is no text. A server may give a text a wrong type, or none. */
function textIn(blob: unknown, mimeType: unknown): string | undefined {
  if (!isBase64(blob)) return undefined;
  const bytes = Buffer.from(blob, 'base64');
  if (textTypes.test(String(mimeType))) return bytes.toString();
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}
