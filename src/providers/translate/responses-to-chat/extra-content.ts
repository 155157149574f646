/**
 * `extra_content`: data that a vendor adds to its answer and requires back with it, keyed by vendor, such as a
 * signature of a thought. The gateway does not interpret it.
 */
import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';

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
