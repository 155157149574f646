/** A workflow as requests use it: everything that follows from its definition, computed once. */
import { workflowFeatures } from '../../events/catalogue/workflow.ts';
import {
  type ChainHashes,
  chainHashes,
  chainsOf,
  type GuardrailCatalogue,
  type GuardrailChains,
  stepProblem,
} from './chains.ts';
import { scopeKey } from './scope.ts';
import {
  stepsOf,
  type WorkflowFeature,
  type WorkflowFeatures,
  type WorkflowPayload,
  type WorkflowVersion,
} from './workflow.ts';

/** The workflow of a request, as its `request.received` has it. One object for all requests of a version. */
export interface SelectedWorkflow {
  readonly id: string;
  readonly version: number;
  /** `global`, `path:/team`, `provider_model:openai:gpt-4o`, … */
  readonly scope: string;
  /** The features that the workflow turns off; absent when it turns off none. */
  readonly off?: readonly WorkflowFeature[];
}

export interface CompiledWorkflow {
  readonly workflow: WorkflowVersion;
  readonly selected: SelectedWorkflow;
  /** The features of the workflow that the configuration of the process does not turn off. */
  readonly effective: WorkflowFeatures;
  /** Undefined when no guardrail runs. */
  readonly chains: GuardrailChains | undefined;
  readonly chainHashes: ChainHashes;
  /** Why its guardrails cannot run. Its requests are refused, because they must not pass unchecked. */
  readonly problem: string | undefined;
}

/** @param switches what the configuration of the process allows */
export function compileWorkflow(
  workflow: WorkflowVersion,
  catalogue: GuardrailCatalogue,
  switches: WorkflowFeatures,
): CompiledWorkflow {
  const { payload } = workflow;
  const effective = effectiveFeatures(payload, switches);
  const steps = effective.guardrails ? stepsOf(payload) : [];
  const problem = stepProblem(steps, catalogue)?.problem;
  const chains = steps.length === 0 || problem !== undefined ? undefined : chainsOf(steps, catalogue);
  return {
    workflow,
    selected: selectedOf(workflow),
    effective,
    chains,
    chainHashes: chains === undefined ? {} : chainHashes(chains),
    problem,
  };
}

/** Budgets need the usage of requests. */
export function effectiveFeatures({ features }: WorkflowPayload, switches: WorkflowFeatures): WorkflowFeatures {
  const on = (feature: WorkflowFeature) => features[feature] && switches[feature];
  return {
    cache: on('cache'),
    audit: on('audit'),
    usage: on('usage'),
    budget: on('budget') && on('usage'),
    guardrails: on('guardrails'),
    failover: on('failover'),
  };
}

function selectedOf({ id, version, scope, payload: { features } }: WorkflowVersion): SelectedWorkflow {
  const off = workflowFeatures.filter((feature) => !features[feature]);
  const selected = { id, version, scope: scopeKey(scope) };
  return off.length === 0 ? selected : { ...selected, off };
}
