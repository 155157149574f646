/**
 * A model's reasoning as a reasoning item's `encrypted_content`: for clients that store nothing on the server
 * (`store: false`) and send each turn's reasoning back unread. No provider is involved that could encrypt it, so it is
 * not encrypted: a mark in front identifies it as the gateway's, followed by base64url of JSON.
 *
 * It is a third larger than the reasoning itself, and is created only for a client that requests it with
 * `include: ["reasoning.encrypted_content"]`.
 */
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';

export interface CarriedReasoning {
  readonly text: string;
  /** Data that a vendor requires back with it, for example a signature of the thought. */
  readonly extra?: JsonObject | undefined;
  /** The same for the tool calls that it led to, by call id: clients keep only OpenAI's members of a call. */
  readonly calls?: ReadonlyMap<string, JsonObject> | undefined;
}

/** The first characters of the gateway's form. */
export const carriedMark = 'chancery.reasoning.1.';

export function carriedForm({ text, extra, calls }: CarriedReasoning): string {
  const ofCalls = calls === undefined || calls.size === 0 ? undefined : Object.fromEntries(calls);
  const json = JSON.stringify({ text, extra_content: extra, calls: ofCalls });
  return carriedMark + Buffer.from(json).toString('base64url');
}

/** Undefined for content encrypted by others, and for the gateway's own content that was damaged. */
export function readCarried(encrypted: unknown): CarriedReasoning | undefined {
  if (!isCarried(encrypted)) return undefined;
  let carried: unknown;
  try {
    carried = parseExactly(Buffer.from(encrypted.slice(carriedMark.length), 'base64url').toString());
  } catch {
    return undefined;
  }
  if (!isObject(carried)) return undefined;
  const { text, extra_content: extra, calls } = carried;
  return {
    text: filled(text) ?? '',
    extra: isObject(extra) ? extra : undefined,
    calls: new Map(isObject(calls) ? Object.entries(calls).filter(isOfCall) : []),
  };
}

function isOfCall(entry: [string, unknown]): entry is [string, JsonObject] {
  return isObject(entry[1]);
}

/** Whether this `encrypted_content` (or signature of a thought) is the gateway's own. */
export function isCarried(encrypted: unknown): encrypted is string {
  return typeof encrypted === 'string' && encrypted.startsWith(carriedMark);
}

/** Whether an item has the gateway's own form: a provider with a native Responses API would refuse it. */
export function isCarriedItem(item: unknown): boolean {
  return isObject(item) && item['type'] === 'reasoning' && isCarried(item['encrypted_content']);
}
