/** Reasoning: a provider's members for its effort, and the reasoning of earlier turns, carried by the client. */

import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse } from '../json.ts';

export const reasoningEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof reasoningEfforts)[number];

export interface ReasoningStyle {
  /** `flat`: member `reasoning_effort`. `object`: member `reasoning`, unchanged. `omit`: not sent. */
  readonly effort: 'flat' | 'object' | 'omit';
  /** The provider's effort levels; another one is lowered to the nearest of these. */
  readonly levels: readonly ReasoningEffort[];
  /** Member of an assistant message that carries earlier reasoning; with `omit` it is dropped. */
  readonly replay: 'reasoning_content' | 'reasoning' | 'omit';
  /** `omit`: vendors' `extra_content` is not sent, since the provider would refuse the request. */
  readonly extraContent?: 'omit';
}

/** The style that most servers with chat completions support. */
export const plainReasoning: ReasoningStyle = {
  effort: 'flat',
  levels: ['none', 'minimal', 'low', 'medium', 'high'],
  replay: 'reasoning_content',
};

/** Refuses an effort that is no level of any provider, since it would be forwarded. @param param the client's name of it */
export function refusedEffort(effort: unknown, param: string): Refused | undefined {
  if (effort === undefined || effort === null || effort === '') return undefined;
  if (reasoningEfforts.some((level) => level === effort)) return undefined;
  const levels = reasoningEfforts.map((level) => `'${level}'`).join(', ');
  const given = typeof effort === 'string' ? `'${effort.slice(0, 64)}'` : `a value of type ${typeof effort}`;
  return refuse('invalid_value', param, `Invalid value for '${param}': expected one of ${levels}, but got ${given}.`);
}

/**
 * The highest known level that is not above the requested one; below all of them, the lowest. Reasoning is never
 * switched off by lowering: only `none` becomes `none`. An unknown level is sent unchanged: in a chat completion, which is
 * forwarded to a provider that may have levels of its own.
 */
export function loweredEffort(requestedEffort: string, levels: readonly ReasoningEffort[]): string {
  const known = reasoningEfforts.find((effort) => effort === requestedEffort);
  if (known === undefined || levels.includes(known)) return requestedEffort;
  const thinking = reasoningEfforts.filter((effort) => effort !== 'none' && levels.includes(effort));
  const place = reasoningEfforts.indexOf(known);
  const below = thinking.filter((effort) => reasoningEfforts.indexOf(effort) < place);
  return below.at(-1) ?? thinking[0] ?? requestedEffort;
}

const honoured = new Set(['effort', 'summary', 'generate_summary']);
const byOmission: ReadonlyMap<string, string> = new Map([
  ['context', 'auto'],
  ['mode', 'standard'],
]);

/**
 * Refuses members of a Responses `reasoning` object that a chat provider cannot get: the treatment of earlier reasoning
 * (`context`), a more thorough mode (`mode`), and anything unknown, when the provider has no `reasoning` object.
 */
export function refusedReasoning(reasoning: unknown, style: ReasoningStyle): Refused | undefined {
  if (!isObject(reasoning)) return undefined;
  const effort = refusedEffort(reasoning['effort'], 'reasoning.effort');
  if (effort !== undefined) return effort;
  for (const member in reasoning) {
    const value = reasoning[member];
    if (value === null || value === '' || honoured.has(member) || value === byOmission.get(member)) continue;
    if (style.effort === 'object' && !byOmission.has(member)) continue;
    const param = `reasoning.${member}`;
    return refuse('unsupported_parameter', param, `This model's provider does not support '${param}'.`);
  }
  return undefined;
}

/** The request members for a Responses `reasoning` object; `summary` is not among them, since it is always returned. */
export function reasoningMembers(reasoning: unknown, style: ReasoningStyle): JsonObject {
  if (!isObject(reasoning) || style.effort === 'omit') return {};
  const requestedEffort = filled(reasoning['effort']);
  const effort = requestedEffort === undefined ? undefined : loweredEffort(requestedEffort, style.levels);
  if (style.effort === 'flat') return effort === undefined ? {} : { reasoning_effort: effort };
  const kept = Object.fromEntries(
    Object.entries(reasoning).filter(
      ([member, value]) => value !== null && !honoured.has(member) && !byOmission.has(member),
    ),
  );
  const members = effort === undefined ? kept : { ...kept, effort };
  return Object.keys(members).length === 0 ? {} : { reasoning: members };
}

// A model's reasoning as a reasoning item's `encrypted_content`: for clients that store nothing on the server
// (`store: false`) and send each turn's reasoning back unread. No provider is involved that could encrypt it, so it is
// not encrypted: a mark in front identifies it as the gateway's, followed by base64url of JSON.
//
// It is a third larger than the reasoning itself, and is created only for a client that requests it with
// `include: ["reasoning.encrypted_content"]`.

interface CarriedReasoning {
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

// `extra_content`: data that a vendor adds to its answer and requires back with it, keyed by vendor, such as a
// signature of a thought. The gateway does not interpret it.

/** Lists and objects that were made here, so that more can be added to them without a copy for each message. */
const own = new WeakSet<object>();

/**
 * Both combined: lists are joined, objects are merged, and of two other values the later one wins. What an earlier
 * call returned is extended in place.
 */
export function mergedExtra(before: JsonObject | undefined, after: JsonObject | undefined): JsonObject | undefined {
  if (before === undefined || after === undefined) return after ?? before;
  return merged(before, after);
}

function merged(before: JsonObject, after: JsonObject): JsonObject {
  const both = own.has(before) ? before : Object.fromEntries(Object.entries(before));
  own.add(both);
  for (const [member, given] of Object.entries(after)) {
    const value = Object.hasOwn(both, member) ? mergedValue(both[member], given) : given;
    // Defined instead of assigned, so that a member may have any name.
    Object.defineProperty(both, member, { value, writable: true, enumerable: true, configurable: true });
  }
  return both;
}

function mergedValue(before: unknown, after: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(after)) {
    const both: unknown[] = own.has(before) ? before : [...before];
    own.add(both);
    for (const one of after) both.push(one);
    return both;
  }
  if (isObject(before) && isObject(after)) return merged(before, after);
  return after;
}
