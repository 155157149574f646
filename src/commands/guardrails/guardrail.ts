/** A guardrail that administrators defined or the configuration declares. Workflows refer to it by its name. */
import type { z } from 'zod';
import type { guardrailSaved } from '../../events/catalogue/guardrail.ts';
import { type StreamName, streamName } from '../../events/event.ts';
import type { GuardrailType } from './guardrail-type.ts';

/** The complete definition; its secrets are sealed. */
export type Guardrail = z.infer<typeof guardrailSaved.data>;

/** By the name of the type. The type of the configuration is known only to the type itself. */
export type GuardrailTypes = ReadonlyMap<string, GuardrailType<unknown>>;

export function guardrailStream(name: string): StreamName {
  return streamName('guardrail', name);
}

/** The settings of the type that are secrets. */
export function secretFields({ fields }: Pick<GuardrailType<unknown>, 'fields'>): readonly string[] {
  return fields.flatMap(({ key, input }) => (input === 'secret' ? [key] : []));
}
