/** Commands and events of the workflow of one scope. Pure: the guardrails in force come with the command. */
import { workflowCreated, workflowDeactivated } from '../../events/catalogue/workflow.ts';
import type { EventContext, NewEvent } from '../../events/event.ts';
import { canonicalSha256 } from '../canonical-json.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { type GuardrailCatalogue, stepProblem } from './chains.ts';
import { scopeType } from './scope.ts';
import { payloadJson, stepsOf, type WorkflowDraft, type WorkflowVersion } from './workflow.ts';

export interface ScopeState {
  /** Undefined before the first version, and after a deactivation. */
  readonly active: WorkflowVersion | undefined;
  /** Number of versions so far. */
  readonly versions: number;
}

export type WorkflowCommand = { readonly context: EventContext } & (
  | {
      readonly kind: 'create';
      /** For the new version. */
      readonly id: string;
      readonly draft: WorkflowDraft;
      readonly guardrails: GuardrailCatalogue;
    }
  /** Creates the default workflow or adapts it to the configuration; a global one of an administrator stays. */
  | { readonly kind: 'manage default'; readonly id: string; readonly draft: WorkflowDraft }
  | { readonly kind: 'deactivate'; readonly id: string }
);

export const workflowDecider: Decider<ScopeState, WorkflowCommand> = {
  initial: { active: undefined, versions: 0 },
  dependsOn: 'other streams',
  decide,
  evolve,
};

function decide(command: WorkflowCommand, state: ScopeState): readonly NewEvent[] | Refusal {
  const { context, id } = command;
  switch (command.kind) {
    case 'create': {
      const { draft, guardrails } = command;
      const problem = stepProblem(stepsOf(draft.payload), guardrails);
      if (problem !== undefined) {
        const member = draft.payload.schemaVersion === 1 ? 'guardrails' : 'steps';
        return refusals.invalidRequest(`${sentence(problem.problem)}.`, `workflow_payload.${member}`);
      }
      return [created(id, draft, state, context)];
    }
    case 'manage default':
      return isKept(command.draft, state) ? [] : [created(id, command.draft, state, context, true)];
    case 'deactivate': {
      if (state.active?.id !== id) return refusals.invalidRequest(`The workflow '${id}' is not active.`, 'id');
      if (scopeType(state.active.scope) === 'global') {
        const message = 'The global workflow cannot be deactivated. A new global workflow replaces it.';
        return refusals.invalidRequest(message, 'id');
      }
      return [workflowDeactivated.create({ id }, context)];
    }
  }
}

function isKept({ payload, description }: WorkflowDraft, { active }: ScopeState): boolean {
  if (active === undefined) return false;
  if (active.managedDefault !== true) return true;
  return active.payloadSha256 === canonicalSha256(payloadJson(payload)) && active.description === description;
}

function created(
  id: string,
  { scope, name, description, payload }: WorkflowDraft,
  { active, versions }: ScopeState,
  context: EventContext,
  isManaged = false,
): NewEvent {
  const data = {
    id,
    scope,
    version: versions + 1,
    name,
    ...(description === undefined ? {} : { description }),
    ...(isManaged ? { managedDefault: true as const } : {}),
    payload,
    payloadSha256: canonicalSha256(payloadJson(payload)),
    ...(active === undefined ? {} : { supersedes: active.id }),
  };
  return workflowCreated.create(data, context);
}

function sentence(problem: string): string {
  return problem.charAt(0).toUpperCase() + problem.slice(1);
}

function evolve(state: ScopeState, { type, data }: DecidedEvent): ScopeState {
  if (type === workflowCreated.type) {
    const active = workflowCreated.data.parse(data);
    return { active, versions: active.version };
  }
  return type === workflowDeactivated.type ? { ...state, active: undefined } : state;
}
