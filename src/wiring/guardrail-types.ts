/** The types of guardrails in this gateway, and what their guardrails may use. */
import type { Guardrail, GuardrailTypes } from '../commands/guardrails/guardrail.ts';
import type { GuardrailServices } from '../commands/guardrails/guardrail-type.ts';
import { knownGuardrailTypes } from '../commands/guardrails/types/known-types.ts';

export const guardrailTypes: GuardrailTypes = new Map(knownGuardrailTypes.map((type) => [type.type, type]));

/** Guardrails are compiled and not run yet (`policyOfWorkflow`), so none calls a model or a server. */
export function guardrailServices({ name, userPath }: Pick<Guardrail, 'name' | 'userPath'>): GuardrailServices {
  const refuse = () => Promise.reject(new Error('guardrails of this gateway call nothing'));
  return { name, userPath, callModel: refuse, fetch: refuse };
}
