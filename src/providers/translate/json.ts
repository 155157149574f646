import { isExactNumber, parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';

/** A JSON object whose members nobody has typed: a translator reads what it knows and keeps the rest. */
export type JsonObject = { readonly [member: string]: unknown };

/** The value when it is a string with something in it: clients send `''` and `null` for "not set". */
export function filled(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The object that a text holds as JSON; undefined when it holds none. */
export function parsedObject(text: string): JsonObject | undefined {
  try {
    const parsed = parseExactly(text);
    return isObject(parsed) && !isExactNumber(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** The arguments of a tool call, which nearly everybody writes as a text; undefined when they are no JSON object. */
export function callArguments(given: unknown): JsonObject | undefined {
  if (given === undefined || given === null || given === '') return {};
  if (typeof given === 'string') return parsedObject(given);
  return isObject(given) ? given : undefined;
}

/** The members that have a value: clients send `null` for "not set". */
export function withoutNulls(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}

/** Whether a client that sends the value means the default: null, an empty text or an empty list. */
export function isUnset(value: unknown): boolean {
  return value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A count of tokens; 0 where it is not a number. */
export function tokensOrZero(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}
