/** Which active workflows use a guardrail, and whether they could use another definition of it. */
import type { BrokenUse, WorkflowUses } from '../guardrails/decider.ts';
import { isPrepared, type PreparedGuardrail } from '../guardrails/prepared-guardrail.ts';
import { type GuardrailCatalogue, stepProblem } from './chains.ts';
import type { WorkflowDirectory } from './directory.ts';
import { scopeDisplay } from './scope.ts';
import { stepsOf, type WorkflowStep } from './workflow.ts';

/** Only workflows whose guardrails are on count, whatever the configuration of the process allows. */
export function workflowUses(
  workflows: Pick<WorkflowDirectory, 'active'>,
  catalogue: GuardrailCatalogue,
): WorkflowUses {
  const usesOf = (name: string) => {
    const used = [...workflows.active].filter(({ workflow }) => workflow.payload.features.guardrails);
    return used.flatMap(({ workflow }) => {
      const steps = stepsOf(workflow.payload);
      const own = steps.filter(({ ref }) => ref === name);
      return own.length === 0 ? [] : [{ scope: scopeDisplay(workflow.scope), own, steps }];
    });
  };
  return {
    scopesUsing: (name) => usesOf(name).map(({ scope }) => scope),
    brokenBy: (changed) =>
      usesOf(changed.definition.name).flatMap(({ scope, own, steps }) =>
        own.flatMap((use) => brokenUse(scope, use, steps, changed, catalogue)),
      ),
  };
}

function brokenUse(
  scope: string,
  use: WorkflowStep,
  steps: readonly WorkflowStep[],
  changed: PreparedGuardrail,
  catalogue: GuardrailCatalogue,
): BrokenUse[] {
  const { name } = changed.definition;
  // A guardrail beside it that cannot run is not the fault of this change.
  const beside = steps.filter(
    ({ ref, phase, step }) =>
      ref !== name && phase === use.phase && step === use.step && isPrepared(catalogue.prepared(ref)),
  );
  const after = { prepared: (ref: string) => (ref === name ? changed : catalogue.prepared(ref)) };
  const found = stepProblem([use, ...beside], after);
  return found === undefined ? [] : [{ use: `${scope} (${use.phase})`, problem: found.problem }];
}
