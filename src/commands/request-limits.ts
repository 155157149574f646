/**
 * Limits of request values as in OpenAI's API (Anthropic's for its own routes): one table for all routes that call a
 * model.
 */
import { isObject } from '../json/is-object.ts';
import { refusedEffort } from '../providers/translate/responses-to-chat/reasoning.ts';
import { type Refusal, refusals, refusedInTranslation } from './refusal.ts';

interface Range {
  readonly name: 'temperature' | 'top_p';
  readonly max: number;
}

const usual: readonly Range[] = [
  { name: 'temperature', max: 2 },
  { name: 'top_p', max: 1 },
];
const narrow: readonly Range[] = [
  { name: 'temperature', max: 1 },
  { name: 'top_p', max: 1 },
];

/** Anthropic's API, and transcriptions, allow temperatures up to 1. */
function rangesOf(endpoint: string): readonly Range[] {
  return endpoint.startsWith('/v1/messages') || endpoint.startsWith('/v1/audio/') ? narrow : usual;
}

/** @param json the body of a request, or the fields of a form, whose numbers are text */
export function limitsRefusal(endpoint: string, json: Readonly<Record<string, unknown>>): Refusal | undefined {
  for (const { name, max } of rangesOf(endpoint)) {
    const value = json[name];
    if (value === undefined || value === null || value === '') continue;
    const number = Number(value);
    if (number > max) return outside(name, 'above maximum value', `<= ${max}`, number, 'decimal_above_max_value');
    if (number < 0) return outside(name, 'below minimum value', '>= 0', number, 'decimal_below_min_value');
  }
  const effort = endpoint.startsWith('/v1/responses') ? effortRefusal(json['reasoning']) : undefined;
  if (effort !== undefined) return effort;
  const { metadata } = json;
  return typeof metadata === 'object' && metadata !== null ? metadataRefusal(metadata) : undefined;
}

/** The levels of the Responses API are a closed list, also where the provider has that API itself. */
function effortRefusal(reasoning: unknown): Refusal | undefined {
  const refused = isObject(reasoning) ? refusedEffort(reasoning['effort'], 'reasoning.effort') : undefined;
  return refused === undefined ? undefined : refusedInTranslation(refused.refusal);
}

function outside(name: string, what: string, expected: string, got: number, code: string): Refusal {
  const message = `Invalid '${name}': decimal ${what}. Expected a value ${expected}, but got ${got} instead.`;
  return refusals.invalidRequest(message, name, code);
}

/** Free text that a client attaches to an object, within OpenAI's limits. */
export type Metadata = Readonly<Record<string, string>>;

const MAX_METADATA_PAIRS = 16;
const MAX_KEY_LENGTH = 64;
const MAX_VALUE_LENGTH = 512;

/** The existing pairs, overwritten by the new ones. */
export function mergedMetadata(before: Metadata, given: Metadata): Metadata {
  return { ...before, ...given };
}

/** Checks text values only; the schema of the route refuses other values. */
export function metadataRefusal(metadata: object): Refusal | undefined {
  const pairs = Object.entries<unknown>({ ...metadata });
  if (pairs.length > MAX_METADATA_PAIRS) {
    const message = `'metadata' may have at most ${MAX_METADATA_PAIRS} pairs, but it would have ${pairs.length}.`;
    return refusals.invalidRequest(message, 'metadata', 'metadata_max_properties_exceeded');
  }
  for (const [key, value] of pairs) {
    if (isLonger(key, MAX_KEY_LENGTH)) return tooLong(`The key '${beginningOf(key)}…'`, MAX_KEY_LENGTH);
    if (typeof value === 'string' && isLonger(value, MAX_VALUE_LENGTH))
      return tooLong(`The value of '${key}'`, MAX_VALUE_LENGTH);
  }
  return undefined;
}

/** Counts code points, as OpenAI does. Each is one or two units of a string, so few texts need to be counted. */
function isLonger(text: string, limit: number): boolean {
  return text.length > 2 * limit || (text.length > limit && [...text].length > limit);
}

function beginningOf(key: string): string {
  return [...key.slice(0, 2 * MAX_KEY_LENGTH)].slice(0, MAX_KEY_LENGTH).join('');
}

function tooLong(what: string, limit: number): Refusal {
  const message = `${what} in 'metadata' is longer than ${limit} characters.`;
  return refusals.invalidRequest(message, 'metadata', 'string_above_max_length');
}
