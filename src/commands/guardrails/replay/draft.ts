/** The draft of a replay: a workflow that is not in force, and guardrails that it defines itself. */
import { canonicalSha256 } from '../../canonical-json.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import { type GuardrailCatalogue, stepProblem } from '../../workflows/chains.ts';
import type { WorkflowScope } from '../../workflows/scope.ts';
import { payloadJson, stepsOf, type WorkflowPayload } from '../../workflows/workflow.ts';
import type { Guardrail } from '../guardrail.ts';
import type { GuardrailPhase, GuardrailServices } from '../guardrail-type.ts';
import type { GuardrailStep } from '../phases/guardrail-step.ts';
import { type GuardrailProblem, isPrepared, type PreparedGuardrail } from '../prepared-guardrail.ts';

export interface ReplayDraft {
  readonly scope: WorkflowScope;
  readonly payload: WorkflowPayload;
  /** They replace those in force with the same name. */
  readonly guardrails: readonly Guardrail[];
}

/** What a guardrail may use in place of the services of the gateway. */
export type OtherServices = (services: GuardrailServices) => GuardrailServices;

export interface DraftParts {
  /** The guardrails in force. */
  readonly inForce: GuardrailCatalogue;
  prepare(guardrail: Guardrail, services?: OtherServices): PreparedGuardrail | GuardrailProblem;
}

export type ReplayChains = Readonly<Record<GuardrailPhase, readonly GuardrailStep[]>>;

/** A draft whose guardrails can run. */
export interface CheckedDraft extends ReplayDraft {
  /** Of scope, payload and guardrails, hexadecimal. */
  readonly sha256: string;
  /** Whether a guardrail calls a model or a server. */
  readonly hasCalls: boolean;
  /** The guardrails that call nothing. */
  pure(): ReplayChains;
  /** All of them, or only those that call a model or a server. */
  withCalls(services: OtherServices, which: 'all' | 'calling'): ReplayChains;
}

/** @returns the draft, or the reason why it cannot run. Names in `param` are those of the admin API */
export function checkDraft(draft: ReplayDraft, { inForce, prepare }: DraftParts): CheckedDraft | Refusal {
  const { scope, payload, guardrails } = draft;
  const own = new Map<string, PreparedGuardrail>();
  for (const [place, guardrail] of guardrails.entries()) {
    const param = `guardrails.${place}`;
    if (own.has(guardrail.name)) return refusals.invalidRequest(`'${guardrail.name}' is defined twice.`, param);
    const prepared = prepare(guardrail);
    if (!isPrepared(prepared)) {
      const message = `The guardrail '${guardrail.name}' cannot run: ${prepared.problem}.`;
      return refusals.invalidRequest(message, prepared.param === undefined ? param : `${param}.${prepared.param}`);
    }
    own.set(guardrail.name, prepared);
  }
  const member = payload.schemaVersion === 1 ? 'guardrails' : 'steps';
  if (!payload.features.guardrails) {
    const message = 'The draft turns guardrails off, so there is nothing to evaluate.';
    return refusals.invalidRequest(message, 'workflow.workflow_payload.features.guardrails');
  }
  const steps = stepsOf(payload);
  if (steps.length === 0) {
    return refusals.invalidRequest('The draft has no guardrails.', `workflow.workflow_payload.${member}`);
  }
  const catalogue: GuardrailCatalogue = { prepared: (name) => own.get(name) ?? inForce.prepared(name) };
  const problem = stepProblem(steps, catalogue);
  if (problem !== undefined) {
    const sentence = problem.problem.charAt(0).toUpperCase() + problem.problem.slice(1);
    return refusals.invalidRequest(`${sentence}.`, `workflow.workflow_payload.${member}`);
  }
  const found = steps.flatMap(({ ref, phase, step }) => {
    const prepared = catalogue.prepared(ref);
    return isPrepared(prepared) ? [{ phase, step, prepared }] : [];
  });
  const isCalling = ({ type }: PreparedGuardrail) => type.calls !== undefined;
  const chains = (services: OtherServices | undefined, isUsed: (one: PreparedGuardrail) => boolean): ReplayChains => {
    const made: Record<GuardrailPhase, GuardrailStep[]> = { prompt: [], response: [], stream: [] };
    for (const { phase, step, prepared } of found) {
      if (!isUsed(prepared)) continue;
      const usable = services === undefined ? prepared : prepare(prepared.definition, services);
      if (isPrepared(usable)) made[phase].push(stepWith(usable, step));
    }
    return made;
  };
  return {
    ...draft,
    sha256: canonicalSha256({ scope, payload: payloadJson(payload), guardrails }),
    hasCalls: found.some(({ prepared }) => isCalling(prepared)),
    pure: () => chains(undefined, (one) => !isCalling(one)),
    withCalls: (services, which) => chains(services, which === 'all' ? () => true : isCalling),
  };
}

function stepWith({ definition, type, compiled }: PreparedGuardrail, step: number): GuardrailStep {
  const { name, failMode, timeoutMs } = definition;
  return { name, type: type.type, step, failMode, timeoutMs, mutating: type.mutating, guardrail: compiled };
}
