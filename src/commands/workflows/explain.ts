/** Explains which workflow a request gets, and why the others do not match. Pure. */
import type { CompiledWorkflow } from './compile.ts';
import type { WorkflowDirectory } from './directory.ts';
import { isAtOrBelow, type ScopeType, scopeDisplay, scopeType } from './scope.ts';

export interface WorkflowQuestion {
  readonly userPath: string | undefined;
  /** The first candidate of the request; undefined when none is known. */
  readonly provider: string | undefined;
  readonly model: string | undefined;
}

/** Why a workflow does not apply: its path, provider or model is another, or the matching one is more specific. */
export type MismatchReason = 'other user path' | 'other provider' | 'other model' | 'less specific';

export interface OtherWorkflow {
  readonly id: string;
  readonly name: string;
  readonly scope: string;
  readonly scopeType: ScopeType;
  readonly reason: MismatchReason;
}

export interface WorkflowExplanation {
  /** Undefined when no workflow matches. */
  readonly matching: CompiledWorkflow | undefined;
  /** Sorted by scope; those that would match first. */
  readonly others: readonly OtherWorkflow[];
  /** Number of further workflows that are not in `others`. */
  readonly omitted: number;
}

const MAX_OTHERS = 100;

export function explainWorkflow(
  question: WorkflowQuestion,
  directory: Pick<WorkflowDirectory, 'select' | 'active'>,
): WorkflowExplanation {
  const { userPath, provider, model } = question;
  const matching = directory.select(userPath, provider, model);
  const others: OtherWorkflow[] = [];
  for (const one of directory.active) {
    if (one === matching) continue;
    const { id, name, scope } = one.workflow;
    const reason = mismatch(one, question) ?? 'less specific';
    others.push({ id, name, scope: scopeDisplay(scope), scopeType: scopeType(scope), reason });
  }
  others.sort((a, b) => rank(a) - rank(b) || (a.scope < b.scope ? -1 : 1));
  return { matching, others: others.slice(0, MAX_OTHERS), omitted: Math.max(0, others.length - MAX_OTHERS) };
}

function rank({ reason }: OtherWorkflow): number {
  return reason === 'less specific' ? 0 : 1;
}

/** Undefined when the workflow is for such requests, and only another one is more specific. */
function mismatch({ workflow: { scope } }: CompiledWorkflow, question: WorkflowQuestion): MismatchReason | undefined {
  if (scope.userPath !== undefined && !isAtOrBelow(question.userPath ?? '/', scope.userPath)) return 'other user path';
  if (scope.provider !== undefined && scope.provider !== question.provider) return 'other provider';
  if (scope.model !== undefined && scope.model !== question.model) return 'other model';
  return undefined;
}
