import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from './json.ts';

/**
 * The choice of a chat chunk for clients of other dialects: the one with index 0, or without an index. A chunk that has
 * only usage has none.
 */
export function firstChoice(chunk: JsonObject): JsonObject | undefined {
  const choices = chunk['choices'];
  if (!Array.isArray(choices)) return undefined;
  return choices.find((choice) => isObject(choice) && (choice['index'] ?? 0) === 0);
}
