/** The draft of a replay: a workflow that is not in force, and guardrails that it defines itself. */
import { canonicalSha256 } from '../../canonical-json.ts';
import { type GuardrailSteps, guardrailSteps } from '../../exchange/policy.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import { chainsOf, type GuardrailCatalogue, stepProblem } from '../../workflows/chains.ts';
import { payloadJson, stepsOf, type WorkflowPayload, type WorkflowScope } from '../../workflows/workflow.ts';
import { type Guardrail, type GuardrailProblem, isPrepared, type PreparedGuardrail } from '../guardrail.ts';
import type { GuardrailServices } from '../guardrail-type.ts';

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

/** A draft whose guardrails can run. */
export interface CheckedDraft extends ReplayDraft {
  /** Of scope, payload and guardrails, hexadecimal. */
  readonly sha256: string;
  /** Whether a guardrail calls a model or a server. */
  readonly hasCalls: boolean;
  /** The guardrails that call nothing. */
  pure(): GuardrailSteps;
  /** All of them, or only those that call a model or a server. */
  withCalls(services: OtherServices, which: 'all' | 'calling'): GuardrailSteps;
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
  const isCalling = (name: string) => {
    const found = catalogue.prepared(name);
    return isPrepared(found) && found.type.calls !== undefined;
  };
  const chains = (isUsed: (name: string) => boolean, services?: OtherServices): GuardrailSteps => {
    const prepared = (name: string) => {
      const found = catalogue.prepared(name);
      return services === undefined || !isPrepared(found) ? found : prepare(found.definition, services);
    };
    const used = steps.filter(({ ref }) => isUsed(ref));
    return guardrailSteps(chainsOf(used, { prepared }));
  };
  return {
    ...draft,
    sha256: canonicalSha256({ scope, payload: payloadJson(payload), guardrails }),
    hasCalls: steps.some(({ ref }) => isCalling(ref)),
    pure: () => chains((name) => !isCalling(name)),
    withCalls: (services, which) => chains(which === 'all' ? () => true : isCalling, services),
  };
}
