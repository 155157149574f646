/** The guardrails of a workflow in the order in which they run, for each phase. */
import { workflowFeatures, workflowPhases } from '../../events/catalogue/workflow.ts';
import { canonicalSha256 } from '../canonical-json.ts';
import { type GuardrailProblem, isPrepared, type PreparedGuardrail } from '../guardrails/guardrail.ts';
import type { GuardrailPhase } from '../guardrails/guardrail-type.ts';
import {
  scopeKey,
  stepsOf,
  type WorkflowFeature,
  type WorkflowFeatures,
  type WorkflowPayload,
  type WorkflowStep,
  type WorkflowVersion,
} from './workflow.ts';

/** The guardrails of one step, which run at the same time. At most one of them changes texts. */
export interface ChainStep {
  readonly step: number;
  readonly guardrails: readonly PreparedGuardrail[];
}

/** The steps of each phase, ascending. */
export type GuardrailChains = Readonly<Record<GuardrailPhase, readonly ChainStep[]>>;

interface StepProblem {
  /** One sentence without its full stop. */
  readonly problem: string;
  /** The index of the step at fault. */
  readonly place: number;
}

/** Finds a guardrail by its name. */
export interface GuardrailCatalogue {
  prepared(name: string): PreparedGuardrail | GuardrailProblem;
}

/** The first reason why the steps cannot run; undefined when they can. */
export function stepProblem(steps: readonly WorkflowStep[], catalogue: GuardrailCatalogue): StepProblem | undefined {
  const mutating = new Map<string, string>();
  for (const [place, { ref, phase, step }] of steps.entries()) {
    const found = catalogue.prepared(ref);
    if (!isPrepared(found)) {
      const isMissing = found.problem.startsWith('there is no guardrail ');
      return { place, problem: isMissing ? found.problem : `the guardrail '${ref}' cannot run: ${found.problem}` };
    }
    const { type, config } = found;
    if (!type.phases.includes(phase)) {
      return { place, problem: `the guardrail '${ref}' has no ${phase} phase: its type is '${type.type}'` };
    }
    const why = config.phaseProblem(phase);
    if (why !== undefined) return { place, problem: `the guardrail '${ref}' cannot run in the ${phase} phase: ${why}` };
    if (!config.mutating) continue;
    const other = mutating.get(`${phase} ${step}`);
    if (other !== undefined) {
      return { place, problem: `'${other}' and '${ref}' both change texts in step ${step} of the ${phase} phase` };
    }
    mutating.set(`${phase} ${step}`, ref);
  }
  return undefined;
}

/** @param steps sorted, and without a `stepProblem` */
export function chainsOf(steps: readonly WorkflowStep[], catalogue: GuardrailCatalogue): GuardrailChains {
  const chains: Record<GuardrailPhase, { step: number; guardrails: PreparedGuardrail[] }[]> = {
    prompt: [],
    response: [],
    stream: [],
  };
  for (const { ref, phase, step } of steps) {
    const found = catalogue.prepared(ref);
    if (!isPrepared(found)) continue;
    const last = chains[phase].at(-1);
    if (last?.step === step) last.guardrails.push(found);
    else chains[phase].push({ step, guardrails: [found] });
  }
  return chains;
}

type ChainHashes = Readonly<Partial<Record<GuardrailPhase, string>>>;

/** SHA-256 of the definitions of each phase in their order, with the digests of plugins. A phase without guardrails has none. */
function chainHashes(chains: GuardrailChains): ChainHashes {
  const used = workflowPhases.filter((phase) => chains[phase].length > 0);
  return Object.fromEntries(used.map((phase) => [phase, canonicalSha256(chains[phase].map(hashedStep))]));
}

function hashedStep({ guardrails }: ChainStep) {
  return guardrails.map(({ definition: { description: _shown, ...definition }, type: { digest, defaults } }) =>
    digest === undefined ? definition : { ...definition, config: { ...defaults, ...definition.config }, digest },
  );
}

// A workflow as requests use it: everything that follows from its definition, computed once.

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
function effectiveFeatures({ features }: WorkflowPayload, switches: WorkflowFeatures): WorkflowFeatures {
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
