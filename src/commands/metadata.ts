/** Free text that a client attaches to an object, within OpenAI's limits. */
import { type Refusal, refusals } from './refusal.ts';

export type Metadata = Readonly<Record<string, string>>;

export const MAX_METADATA_PAIRS = 16;
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
