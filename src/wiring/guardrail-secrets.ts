/** The settings of guardrail types that are secrets, for `chancery config print`. */
import { secretFields } from '../commands/guardrails/guardrail.ts';
import { knownGuardrailTypes } from '../commands/guardrails/types/known-types.ts';

export const guardrailSecrets: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  knownGuardrailTypes.map((type) => [type.type, secretFields(type)]),
);
