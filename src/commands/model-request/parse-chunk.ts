import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';

/** The data of a stream event as an object; undefined when it is not an object. */
export function parseChunk(data: string): Record<string, unknown> | undefined {
  try {
    const parsed = parseExactly(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether the data of a stream event begins as a JSON object and does not end as one. For events that are passed on
 * without parsing: only the two ends are checked.
 */
export function isTorn(data: string): boolean {
  if (!data.startsWith('{') || data.endsWith('}')) return false;
  return !data.trimEnd().endsWith('}');
}
