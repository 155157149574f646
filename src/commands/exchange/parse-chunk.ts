import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from './usage.ts';

/** The data of a stream event as an object; undefined when it is none. */
export function parseChunk(data: string): Record<string, unknown> | undefined {
  try {
    const parsed = parseExactly(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
