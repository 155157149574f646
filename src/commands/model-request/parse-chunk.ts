import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';

/** The data of a stream event as an object; undefined when it is not an object. */
export function parseChunk(data: string): Record<string, unknown> | undefined {
  try {
    const parsed = parseExactly(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether the data of a stream event is no JSON object: a part of the answer is missing, or it is no answer at all. Data
 * without text and the end marker are neither. For events that are passed on without parsing: only the two ends are
 * checked.
 */
export function isNoEvent(data: string): boolean {
  if (data.startsWith('{') && data.endsWith('}')) return false;
  const text = data.trim();
  return text !== '' && text !== '[DONE]' && !(text.startsWith('{') && text.endsWith('}'));
}
