/** The content of one message: a string, or parts in chat form. */
import { filled, type JsonObject } from '../json.ts';
import { isPlainText } from './content-parts.ts';

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
