/** Counts the bytes of model text in an event of a stream or in a whole answer, for every dialect. Pure. */
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

/** Arguments of a call, which some dialects send as an object. */
const CALL: ReadonlySet<string> = new Set(['arguments', 'input']);

/** Members of a whole answer in which the model's text is: choices of chat, items of responses, blocks of messages, and so on. */
const PARTS = ['choices', 'output', 'content', 'message', 'response', 'candidates'] as const;

/**
 * Bytes of the text of a whole answer. Undefined for one that no model generated, and for a response that has not ended or
 * has failed.
 */
export function bytesInAnswer(answer: unknown): number | undefined {
  if (!isObject(answer)) return undefined;
  const { calls, choices, output, content, candidates, data, embeddings, done, status, type } = answer;
  // Of parallel calls.
  if (Array.isArray(calls)) {
    const texts = calls.map(bytesInAnswer).filter((bytes) => bytes !== undefined);
    return texts.length === 0 ? undefined : texts.reduce((sum, bytes) => sum + bytes);
  }
  if (status === 'failed' || status === 'queued' || status === 'in_progress') return undefined;
  const isText =
    [choices, output, candidates].some(Array.isArray) ||
    (type === 'message' && Array.isArray(content)) ||
    typeof done === 'boolean';
  if (isText) return PARTS.reduce((bytes, name) => bytes + bytesSaid({ [name]: answer[name] }), 0);
  const [first]: unknown[] = Array.isArray(data) ? data : [];
  const isEmbedding = Array.isArray(embeddings) || (isObject(first) && 'embedding' in first);
  return isEmbedding ? 0 : undefined;
}

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
        if (typeof member === 'string') bytes += TEXT.has(name) ? Buffer.byteLength(member) : 0;
        else if (CALL.has(name) && isObject(member)) bytes += bytesOfCall(member);
        else rest.push(member);
      }
    }
  }
  return bytes;
}

function bytesOfCall(given: Readonly<Record<string, unknown>>): number {
  const text = JSON.stringify(given);
  return text === '{}' ? 0 : Buffer.byteLength(text);
}
