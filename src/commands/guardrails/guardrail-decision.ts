/** The decision of a guardrail, and which of several decisions counts. */

export type GuardrailAction = 'allow' | 'warn' | 'respond' | 'block';

export type GuardrailDecision =
  | { readonly action: 'allow' }
  | { readonly action: 'warn'; readonly code: string; readonly message?: string }
  /** The gateway answers with `text` as the assistant's turn; no provider is called, or its answer is replaced. */
  | { readonly action: 'respond'; readonly code: string; readonly text: string; readonly message?: string }
  /** `status` undefined: 400 in the prompt phase, 422 in the response phase and the stream phase. */
  | { readonly action: 'block'; readonly code: string; readonly message: string; readonly status?: number };

export const allowed: GuardrailDecision = { action: 'allow' };

export const guardrailBlocked = 'guardrail_blocked';
export const guardrailWarning = 'guardrail_warning';
export const guardrailResponded = 'guardrail_responded';

const severity: Readonly<Record<GuardrailAction, number>> = { allow: 0, warn: 1, respond: 2, block: 3 };

/** Whether `one` outweighs `other`: block > respond > warn > allow. */
export function outweighs(one: GuardrailDecision, other: GuardrailDecision): boolean {
  return severity[one.action] > severity[other.action];
}
