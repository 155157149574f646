/** The types of guardrails in this gateway, and what their guardrails may use. */
import type { Guardrail, GuardrailTypes } from '../commands/guardrails/guardrail.ts';
import type { GuardrailServices } from '../commands/guardrails/guardrail-type.ts';

export const guardrailTypes: GuardrailTypes = new Map();

/** No type calls a model or a server. */
export function guardrailServices({ name, userPath }: Pick<Guardrail, 'name' | 'userPath'>): GuardrailServices {
  const refuse = () => Promise.reject(new Error('guardrails of this gateway call nothing'));
  return { name, userPath, callModel: refuse, fetch: refuse };
}
