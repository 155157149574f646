/** What the guardrails of a request came to, over all phases and attempts. */
import type { z } from 'zod';
import { type guardrailApplied, guardrailVerdicts } from '../events/catalogue/guardrail.ts';

type Applied = z.infer<typeof guardrailApplied.data>;

export interface GuardrailSummary {
  /** The strongest; the first of equal ones. */
  readonly verdict: Applied['verdict'];
  /** The guardrail with that verdict; undefined for `allow`. */
  readonly decidedBy: string | undefined;
  readonly code: string | undefined;
  /** Whether the request or the answer was changed. */
  readonly edited: boolean;
  readonly runs: number;
}

/** @param before undefined for the first phase */
export function withApplied(before: GuardrailSummary | undefined, applied: Applied): GuardrailSummary {
  const { verdict, decidedBy, code } =
    before !== undefined && strength(before.verdict) >= strength(applied.verdict) ? before : applied;
  return {
    verdict,
    decidedBy,
    code,
    edited: applied.edited || before?.edited === true,
    runs: applied.runs.length + (before?.runs ?? 0),
  };
}

function strength(verdict: Applied['verdict']): number {
  return guardrailVerdicts.indexOf(verdict);
}
