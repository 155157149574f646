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

export function joinedContent(before: Content | null, after: Content): Content | null {
  if (before === null || before === '') return after === '' ? before : after;
  if (typeof before === 'string' && typeof after === 'string') return before + after;
  return [...asParts(before), ...asParts(after)];
}

function asParts(content: Content): readonly JsonObject[] {
  if (typeof content !== 'string') return content;
  return content === '' ? [] : [{ type: 'text', text: content }];
}
