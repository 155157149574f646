/**
 * Reasoning that the gateway carries for clients in a form of its own is no text that guardrails read, so guarded
 * requests and answers have the same form without any reasoning.
 */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import {
  carriedForm,
  carriedMark,
  isCarried,
} from '../../../providers/translate/responses-to-chat/carried-reasoning.ts';

const nothing = carriedForm({ text: '' });

/** Whether a JSON text may hold it. */
export function mayHoldCarried(json: string | Buffer): boolean {
  return json.includes(carriedMark);
}

export function withoutCarried(value: unknown): unknown {
  if (typeof value === 'string') return isCarried(value) ? nothing : value;
  if (Array.isArray(value)) return value.map(withoutCarried);
  if (!isObject(value) || isExactNumber(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withoutCarried(one)]));
}
