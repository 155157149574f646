/** The guardrails of a workflow in the order in which they run, for each phase. */
import { workflowPhases } from '../../events/catalogue/workflow.ts';
import { canonicalSha256 } from '../canonical-json.ts';
import type { GuardrailPhase } from '../guardrails/guardrail-type.ts';
import { type GuardrailProblem, isPrepared, type PreparedGuardrail } from '../guardrails/prepared-guardrail.ts';
import type { WorkflowStep } from './workflow.ts';

/** The guardrails of one step, which run at the same time. At most one of them changes texts. */
export interface ChainStep {
  readonly step: number;
  readonly guardrails: readonly PreparedGuardrail[];
}

/** The steps of each phase, ascending. */
export type GuardrailChains = Readonly<Record<GuardrailPhase, readonly ChainStep[]>>;

export interface StepProblem {
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

export type ChainHashes = Readonly<Partial<Record<GuardrailPhase, string>>>;

/** SHA-256 of the definitions of each phase in their order, with the digests of plugins. A phase without guardrails has none. */
export function chainHashes(chains: GuardrailChains): ChainHashes {
  const used = workflowPhases.filter((phase) => chains[phase].length > 0);
  return Object.fromEntries(used.map((phase) => [phase, canonicalSha256(chains[phase].map(hashedStep))]));
}

function hashedStep({ guardrails }: ChainStep) {
  return guardrails.map(({ definition: { description: _shown, ...definition }, type: { digest, defaults } }) =>
    digest === undefined ? definition : { ...definition, config: { ...defaults, ...definition.config }, digest },
  );
}
