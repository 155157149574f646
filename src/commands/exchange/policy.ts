/** The policy that applies to one request: its workflow. Selected once, before anything is recorded. */
import type { CompiledWorkflow, SelectedWorkflow } from '../workflows/compile.ts';
import { type GuardrailSteps, guardrailSteps } from './guardrail-steps.ts';

/** One object for all requests of a workflow. */
export interface ExchangePolicy {
  /** Recorded with the request; undefined when there is no workflow for it. */
  readonly workflow: SelectedWorkflow | undefined;
  /** `metadata`: neither the body of the request nor the answer is recorded. */
  readonly capture: 'full' | 'metadata';
  /** Whether the usage of the answer is recorded and charged. */
  readonly recordsUsage: boolean;
  /** Whether budgets may refuse the request, and reserve its cost. */
  readonly checksBudgets: boolean;
  /** Whether other candidates are called after the first. */
  readonly failsOver: boolean;
  /** Whether the answer may come from the response cache, and may be kept there. */
  readonly usesCache: boolean;
  /** Undefined when no guardrail runs. */
  readonly guardrails: GuardrailSteps | undefined;
  /** Why the guardrails cannot run. The request is refused, because it must not pass unchecked. */
  readonly problem: string | undefined;
}

/** Without a workflow: every feature, and no guardrails. */
export function policyWithout(capture: ExchangePolicy['capture']): ExchangePolicy {
  return {
    workflow: undefined,
    capture,
    recordsUsage: true,
    checksBudgets: true,
    failsOver: true,
    usesCache: true,
    guardrails: undefined,
    problem: undefined,
  };
}

/**
 * The policy of a workflow. Audit and usage follow the workflow alone: the switches of the process for them change
 * reports, and not what is recorded.
 * @param capture the capture level of requests that are audited
 */
export function policyOfWorkflow(compiled: CompiledWorkflow, capture: ExchangePolicy['capture']): ExchangePolicy {
  const { workflow, selected, effective, chains, problem } = compiled;
  const { features } = workflow.payload;
  return {
    workflow: selected,
    capture: features.audit ? capture : 'metadata',
    recordsUsage: features.usage,
    checksBudgets: features.budget && features.usage,
    failsOver: effective.failover,
    usesCache: effective.cache,
    guardrails: chains === undefined ? undefined : guardrailSteps(chains),
    problem,
  };
}
