/** A switch in a configuration. The editor has no input for it but a selection, whose values are texts. */
import { z } from 'zod';
import type { EditorField } from '../guardrail-type.ts';

export const yesOrNo = z.union([z.boolean(), z.enum(['true', 'false']).transform((value) => value === 'true')]);

export function yesOrNoField(key: string, label: string): EditorField {
  const options = [
    { value: 'true', label: 'Yes' },
    { value: 'false', label: 'No' },
  ];
  return { key, label, input: 'select', required: false, options, scope: '' };
}
