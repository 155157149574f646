/** What is wrong with the answer of a plugin, in a short text. */
import type { z } from 'zod';

/** Names the member, and no value of it. Names of members come from the plugin: they may be long. */
export function problemOf({ issues: [issue] }: z.ZodError): string {
  return `${issue?.path.join('.')}: ${issue?.message}`.slice(0, 500);
}

/** Checked before a schema reads the members one by one. @returns the first member with more members than its limit */
export function tooManyMembers(given: unknown, limits: Readonly<Record<string, number>>): string | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  for (const [name, limit] of Object.entries(limits)) {
    const member: unknown = Reflect.get(given, name);
    if (typeof member !== 'object' || member === null) continue;
    const count = Array.isArray(member) ? member.length : Object.keys(member).length;
    if (count > limit) return `${name}: has ${count} members, the limit is ${limit}`;
  }
  return undefined;
}
