/** The form fields that the gateway uses to decide the target, the cost, and the access to files. */
import { kindOfField } from '../../model-request/references.ts';

const CONTROL_FIELDS: ReadonlySet<string> = new Set(['model', 'provider', 'stream', 'n']);

/** Whether a form may contain the field only once. */
export function isControlField(name: string): boolean {
  return CONTROL_FIELDS.has(name);
}

/**
 * Whether a provider may take a part of this name for a control field, also when it ignores case, spaces or brackets.
 * Such a part must be text, which the gateway reads.
 */
export function mayBeControlField(name: string): boolean {
  const plain = name.trim().toLowerCase();
  return CONTROL_FIELDS.has(plain.replace(/\[.*$/s, '').trim()) || kindOfField(plain) !== undefined;
}
