/** The fields of a form that the gateway decides by: who gets the form, what it costs, what it may name. */
import { namesFile } from './file-fields.ts';

const CONTROL_FIELDS: ReadonlySet<string> = new Set(['model', 'provider', 'stream', 'n']);

/** Whether the field of this name may be there once only. */
export function isControlField(name: string): boolean {
  return CONTROL_FIELDS.has(name);
}

/**
 * Whether a provider may take a part of this name for a control field, also when it ignores case, spaces or brackets.
 * Such a part must be text, which the gateway reads.
 */
export function mayBeControlField(name: string): boolean {
  const plain = name.trim().toLowerCase();
  return CONTROL_FIELDS.has(plain.replace(/\[.*$/s, '').trim()) || namesFile(plain);
}
