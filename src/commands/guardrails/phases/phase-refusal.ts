/** What the client gets when guardrails decide: statuses, codes and headers. */
import type { GuardrailDecision } from '../guardrail-decision.ts';
import type { GuardrailPhase } from '../guardrail-type.ts';

export const guardrailHeader = 'x-chancery-guardrail';

/** Bytes of a stream that are kept while a guardrail reads the whole answer, and of one event. */
export const mostCollectedBytes = 4 * 1024 * 1024;
export const responseTooLarge = 'response_too_large';
export const eventTooLarge = 'event_too_large';

export function blockStatus(decision: Extract<GuardrailDecision, { action: 'block' }>, phase: GuardrailPhase): number {
  return decision.status ?? (phase === 'prompt' ? 400 : 422);
}

/** The value of `guardrailHeader`; undefined without warnings. */
export function warningHeader(codes: readonly string[]): string | undefined {
  return codes.length === 0 ? undefined : codes.map((code) => `warn; code=${code}`).join(', ');
}
