/** Look-ups in a schema of settings. */
import { z } from 'zod';
import { type SettingFacts, settingFacts } from './setting.ts';

export interface Leaf {
  readonly path: readonly string[];
  readonly facts: SettingFacts;
}

/** Every setting with a fixed place, in the order of declaration: all but those of providers. */
export function leavesOf(schema: z.core.$ZodType, path: readonly string[] = []): Leaf[] {
  const facts = settingFacts.get(schema);
  if (facts !== undefined) return [{ path, facts }];
  const bare = unwrapped(schema);
  if (!(bare instanceof z.ZodObject)) return [];
  return Object.entries(bare.shape).flatMap(([key, member]) => leavesOf(member, [...path, key]));
}

/** Whether the setting at `path`, or one around it, is a secret. */
export function isSecretAt(schema: z.core.$ZodType, path: readonly string[]): boolean {
  let node: z.core.$ZodType | undefined = schema;
  for (const key of path) {
    if (node !== undefined && settingFacts.get(node)?.secret) return true;
    node = node && memberOf(node, key);
  }
  return node !== undefined && settingFacts.get(node)?.secret === true;
}

/** Whether the setting at `path` is declared to hold secrets among its parts. */
export function holdsSecretsAt(schema: z.core.$ZodType, path: readonly string[]): boolean {
  let node: z.core.$ZodType | undefined = schema;
  for (const key of path) node = node && memberOf(node, key);
  return node !== undefined && settingFacts.get(node)?.holdsSecrets === true;
}

/** How the value of the setting at `path` is shown, when parts of it may be secrets. */
export function maskingAt(schema: z.core.$ZodType, path: readonly string[]): SettingFacts['masking'] {
  let node: z.core.$ZodType | undefined = schema;
  for (const key of path) node = node && memberOf(node, key);
  return node && settingFacts.get(node)?.masking;
}

/** The keys that the mapping at `path` may have. */
export function keysAt(schema: z.core.$ZodType, path: readonly string[]): string[] {
  let node: z.core.$ZodType | undefined = schema;
  for (const key of path) node = node && memberOf(node, key);
  const bare = node && unwrapped(node);
  return bare instanceof z.ZodObject ? Object.keys(bare.shape) : [];
}

/** The default of a setting or of a whole section, in the form of the file. */
export function initialOf(schema: z.core.$ZodType): unknown {
  const bare = unwrapped(schema);
  if (!(bare instanceof z.ZodObject)) return schema instanceof z.ZodPrefault ? schema.def.defaultValue : undefined;
  const members = Object.entries(bare.shape).map(([key, member]) => [key, initialOf(member)] as const);
  return Object.fromEntries(members.filter(([, initial]) => initial !== undefined));
}

function memberOf(schema: z.core.$ZodType, key: string): z.core.$ZodType | undefined {
  const bare = unwrapped(schema);
  if (bare instanceof z.ZodObject) return bare.shape[key];
  if (bare instanceof z.ZodRecord) return bare.valueType;
  if (bare instanceof z.ZodArray) return bare.element;
  return undefined;
}

function unwrapped(schema: z.core.$ZodType): z.core.$ZodType {
  const isWrapper = schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional;
  return isWrapper ? unwrapped(schema.def.innerType) : schema;
}
