/** A guardrail in a workflow, and the record of one run of it. */
import type { GuardrailAction } from '../guardrail-decision.ts';
import type { CompiledGuardrail, GuardrailPhase } from '../guardrail-type.ts';

export interface GuardrailStep {
  /** The name of the instance. */
  readonly name: string;
  readonly type: string;
  /** Ascending; steps with the same number run at the same time. */
  readonly step: number;
  readonly failMode: 'closed' | 'open';
  /** 0: without limit. */
  readonly timeoutMs: number;
  /** Whether it changes texts, as it is configured. */
  readonly mutating: boolean;
  readonly guardrail: CompiledGuardrail;
}

/** One run, for the record of the exchange. Contains no text of the request and no value that was found. */
export interface GuardrailRun {
  readonly phase: GuardrailPhase;
  readonly step: number;
  readonly guardrail: string;
  readonly type: string;
  readonly verdict: GuardrailAction | 'failure';
  readonly code?: string;
  readonly message?: string;
  /** Of a failure. */
  readonly error?: string;
  readonly failMode?: 'closed' | 'open';
  /** Whether texts, the system text or headers changed. */
  readonly edited: boolean;
  readonly findings?: Readonly<Record<string, number>>;
  readonly durationNs: number;
}

/** The steps in their order, those that run together in one list. */
export function orderedSteps(steps: readonly GuardrailStep[]): readonly (readonly GuardrailStep[])[] {
  const groups = Map.groupBy(steps, ({ step }) => step);
  return [...groups].sort(([one], [other]) => one - other).map(([, together]) => together);
}
