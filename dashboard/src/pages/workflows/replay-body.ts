/** The body of a replay. Pure. */
import type { paths } from '../../../generated/api';
import { type GuardrailDraft, guardrailBodyOf } from './guardrail-draft.ts';
import { addStep } from './step-list.ts';
import { bodyOf, type WorkflowDraft } from './workflow-draft.ts';
import { type Phase, phases } from './workflow-rows.ts';

export type ReplayBody = paths['/admin/guardrails/replay']['post']['requestBody']['content']['application/json'];

export interface ReplayChoices {
  readonly from: string;
  readonly to: string;
  readonly userPath: string;
  readonly maxRequests: number | undefined;
  readonly sample: number | undefined;
  readonly maxCost: number | undefined;
}

export function replayBody(
  workflow: WorkflowDraft,
  guardrail: GuardrailDraft | undefined,
  { from, to, userPath, maxRequests, sample, maxCost }: ReplayChoices,
): ReplayBody {
  return {
    workflow: bodyOf({ ...workflow, name: workflow.name || 'draft' }),
    ...(guardrail === undefined ? {} : { guardrails: [guardrailBodyOf(guardrail)] }),
    ...{ from, to },
    ...(userPath === '' ? {} : { user_path: userPath }),
    ...(maxRequests === undefined ? {} : { max_requests: maxRequests }),
    ...(sample === undefined ? {} : { sample }),
    ...(maxCost === undefined ? {} : { max_cost: maxCost }),
  };
}

/** The workflow with a step of the guardrail in the first phase in which it can run, unless it names it already. */
export function withStepOf(workflow: WorkflowDraft, name: string, possible: readonly Phase[]): WorkflowDraft {
  const [first] = possible;
  if (first === undefined || phases.some((phase) => workflow.steps[phase].some(({ ref }) => ref === name))) {
    return workflow;
  }
  return { ...workflow, steps: { ...workflow.steps, [first]: addStep(workflow.steps[first], name) } };
}

export function withoutStepsOf(workflow: WorkflowDraft, name: string): WorkflowDraft {
  const without = (phase: Phase) => workflow.steps[phase].filter(({ ref }) => ref !== name);
  return {
    ...workflow,
    steps: { prompt: without('prompt'), response: without('response'), stream: without('stream') },
  };
}
