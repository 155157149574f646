/** Counts the bytes of model text in an event of a stream, for every dialect. Pure. */
import { isObject } from '../../../json/is-object.ts';

/** Members with text that a model generated. */
const TEXT: ReadonlySet<string> = new Set([
  'content',
  'text',
  'reasoning_content',
  'reasoning',
  'thinking',
  'refusal',
  'arguments',
  'partial_json',
  'response',
  'transcript',
]);

/** Bytes of UTF-8. Audio does not count, and neither do events of the Responses API that repeat earlier text. */
export function bytesSaid(event: Readonly<Record<string, unknown>>): number {
  const { type, delta } = event;
  if (typeof type === 'string' && type.startsWith('response.')) {
    const isText = type.endsWith('.delta') && !type.endsWith('audio.delta');
    return isText && typeof delta === 'string' ? Buffer.byteLength(delta) : 0;
  }
  let bytes = 0;
  const rest: unknown[] = [event];
  while (rest.length > 0) {
    const value = rest.pop();
    if (Array.isArray(value)) for (const each of value) rest.push(each);
    else if (isObject(value)) {
      for (const [name, member] of Object.entries(value)) {
        if (typeof member !== 'string') rest.push(member);
        else if (TEXT.has(name)) bytes += Buffer.byteLength(member);
      }
    }
  }
  return bytes;
}
