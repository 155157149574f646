/** The workflow that the gateway creates for the requests of no other workflow. */
import { sortedSteps, type WorkflowDraft, type WorkflowStep } from './workflow.ts';
import { managedDefaultDescription, managedDefaultName } from './workflow-input.ts';

/** Every feature is on; guardrails when there are steps. @param steps of guardrails that exist */
export function managedDefault(steps: readonly WorkflowStep[]): WorkflowDraft {
  const features = {
    cache: true,
    audit: true,
    usage: true,
    budget: true,
    guardrails: steps.length > 0,
    failover: true,
  };
  return {
    scope: {},
    name: managedDefaultName,
    description: managedDefaultDescription,
    payload: { schemaVersion: 2, features, steps: sortedSteps(steps) },
  };
}
