/**
 * `extra_content`: data that a vendor adds to its answer and requires back with it, keyed by vendor, such as a
 * signature of a thought. The gateway does not interpret it.
 */
import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';

/** Both combined: lists are joined, objects are merged, and of two other values the later one wins. */
export function mergedExtra(before: JsonObject | undefined, after: JsonObject | undefined): JsonObject | undefined {
  if (before === undefined || after === undefined) return after ?? before;
  return merged(before, after);
}

function merged(before: JsonObject, after: JsonObject): JsonObject {
  // Without a prototype, so that a member may have any name.
  const both = new Map(Object.entries(before));
  for (const [member, value] of Object.entries(after)) both.set(member, mergedValue(both.get(member), value));
  return Object.fromEntries(both);
}

function mergedValue(before: unknown, after: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(after)) return [...before, ...after];
  if (isObject(before) && isObject(after)) return merged(before, after);
  return after;
}
