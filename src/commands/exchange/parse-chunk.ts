import { isObject } from './usage.ts';

/** The data of a stream event as an object; undefined when it is none. */
export function parseChunk(data: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
