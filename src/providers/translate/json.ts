import { isExactNumber, parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';

/** A JSON object of unchecked members: a translator reads the known ones and keeps the rest. */
export type JsonObject = { readonly [member: string]: unknown };

/** The value when it is a string that is not empty: clients send `''` and `null` for "not set". */
export function filled(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The object in a JSON text; undefined when the text is not one. */
export function parsedObject(text: string): JsonObject | undefined {
  try {
    const parsed = parseExactly(text);
    return isObject(parsed) && !isExactNumber(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** The arguments of a tool call, which most clients and servers send as a text; undefined when not a JSON object. */
export function callArguments(given: unknown): JsonObject | undefined {
  if (given === undefined || given === null || given === '') return {};
  if (typeof given === 'string') return parsedObject(given);
  return isObject(given) ? given : undefined;
}

/** The members that have a value: clients send `null` for "not set". */
export function withoutNulls(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}

/** Whether the value means the default: null, an empty text or an empty list. */
export function isUnset(value: unknown): boolean {
  return value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A count of tokens; 0 where it is not a number. */
export function tokensOrZero(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

/** A count of tokens as a provider reports it; null where it is not one. */
export function reportedCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Null where a side is not known. */
export function totalOf(input: number | null, output: number | null): number | null {
  return input === null || output === null ? null : input + output;
}
