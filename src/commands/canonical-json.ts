/** JSON text with sorted members, so that equal values have equal texts and hashes. */
import { createHash } from 'node:crypto';
import { isObject } from '../json/is-object.ts';

/** Members that are undefined are left out, as `JSON.stringify` does. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) => (isObject(member) ? sorted(member) : member));
}

/** SHA-256 of the canonical JSON, hexadecimal. */
export function canonicalSha256(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

function sorted(object: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(object).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Whether two lists have the same entries in the same order. */
export function isSameList(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((entry, place) => entry === other[place]);
}
