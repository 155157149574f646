/**
 * Reasoning that the gateway carries for clients in a form of its own is no text that guardrails read, so guarded
 * requests and answers do not have it.
 */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { carriedMark, isCarried } from '../../../providers/translate/responses-to-chat/carried-reasoning.ts';

/** Whether a JSON text may hold it. */
export function mayHoldCarried(json: string | Buffer): boolean {
  return json.includes(carriedMark);
}

/** The value with empty strings in its place, and without `encrypted_content` that is empty then. */
export function withoutCarried(value: unknown): unknown {
  if (typeof value === 'string') return isCarried(value) ? '' : value;
  if (Array.isArray(value)) return value.map(withoutCarried);
  if (!isObject(value) || isExactNumber(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, one]) =>
      name === 'encrypted_content' && isCarried(one) ? [] : [[name, withoutCarried(one)]],
    ),
  );
}
