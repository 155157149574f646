/**
 * Changes of workflows, one at a time, and none beside a change of a guardrail on any gateway: whether a workflow is
 * valid depends on the guardrails that it names.
 */
import { workflowCreated, workflowDeactivated } from '../../events/catalogue/workflow.ts';
import { type EventContext, type NewEvent, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { VersionPlace, WorkflowRecord } from '../../projections/workflows.ts';
import { canonicalSha256 } from '../canonical-json.ts';
import type { DecidedEvent, Decider, Guard } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { type GuardrailCatalogue, stepProblem } from './chains.ts';
import type { WorkflowDirectory } from './directory.ts';
import {
  payloadJson,
  scopeKey,
  scopeType,
  stepsOf,
  type WorkflowDraft,
  type WorkflowStep,
  type WorkflowVersion,
  workflowStream,
} from './workflow.ts';
import { managedDefault } from './workflow-input.ts';

interface WorkflowChangesOptions {
  readonly log: Pick<EventLog, 'readStream'>;
  readonly directory: Pick<WorkflowDirectory, 'placeOf' | 'storedAs'>;
  readonly guardrails: GuardrailCatalogue;
  /** The same as that of the changes of guardrails. */
  readonly guard: Guard;
  newId(): string;
}

interface WorkflowCondition {
  /** Of the version that the caller knows as the active one of the scope; `noStream`: it knows none. */
  readonly ifRevision?: bigint | 'noStream' | undefined;
}

export class WorkflowChanges {
  readonly #options: WorkflowChangesOptions;

  constructor(options: WorkflowChangesOptions) {
    this.#options = options;
  }

  /**
   * @returns the new active version of the scope
   * @throws Refusal, also 409 when the active version of the scope is not the one of `ifRevision`
   */
  create(
    draft: WorkflowDraft,
    context: EventContext,
    { ifRevision }: WorkflowCondition = {},
  ): Promise<WorkflowVersion> {
    const { guard, guardrails, newId, directory } = this.#options;
    const key = scopeKey(draft.scope);
    return guard.run(context, async (execute) => {
      const id = newId();
      // The stream of a scope whose workflow was deactivated has a revision, and no active version.
      const isNone = ifRevision === 'noStream' && directory.storedAs(key) === undefined;
      const command: WorkflowCommand = { kind: 'create', id, draft, guardrails, context };
      const stream = streamName('workflow', key);
      await execute(workflowDecider, command, { stream, ifRevision: isNone ? undefined : ifRevision });
      const stored = directory.storedAs(key);
      // Another gateway on the same log may have superseded it already.
      return stored?.workflow.id === id ? stored.workflow : this.#read(id);
    });
  }

  /** @throws Refusal: 404 for an unknown id, 400 for the global workflow and for one that is not active */
  deactivate(id: string, context: EventContext): Promise<void> {
    const { guard, directory } = this.#options;
    return guard.run(context, async (execute) => {
      const place = directory.placeOf(id);
      if (place === undefined) throw refusals.notFound('workflow', id);
      const stream = streamName('workflow', place.key);
      await execute(workflowDecider, { kind: 'deactivate', id, context }, { stream });
    });
  }

  /**
   * Creates the default workflow, or adapts it to the configured guardrails. Does nothing where an administrator made
   * the global workflow. @throws Refusal 503 when the log cannot be written
   */
  async manageDefault(steps: readonly WorkflowStep[]): Promise<void> {
    const { guard, newId } = this.#options;
    const context: EventContext = { actor: 'system' };
    const command = { kind: 'manage default', draft: managedDefault(steps), context } as const;
    const stream = workflowStream({});
    await guard.run(context, (execute) => execute(workflowDecider, { ...command, id: newId() }, { stream }));
  }

  async #read(id: string): Promise<WorkflowVersion> {
    const place = this.#options.directory.placeOf(id);
    const found = place === undefined ? undefined : await readVersion(place, this.#options.log);
    if (found === undefined) throw refusals.notFound('workflow', id);
    return found.workflow;
  }
}

/** A version as its event has it. */
export type RecordedVersion = Omit<WorkflowRecord, 'revision'>;

/** The versions of a scope, the newest first, at most `limit` of them. */
export async function readVersions(
  key: string,
  { log, limit }: { readonly log: Pick<EventLog, 'readStream'>; readonly limit: number },
): Promise<RecordedVersion[]> {
  const versions: RecordedVersion[] = [];
  for await (const { type, data, at } of log.readStream(streamName('workflow', key))) {
    if (type !== workflowCreated.type) continue;
    versions.push({ workflow: workflowCreated.data.parse(data), createdAt: Math.floor(at) });
    if (versions.length > limit) versions.shift();
  }
  return versions.reverse();
}

/** Reads one version, active or not, from the log. Undefined when the log has no version at this place. */
export async function readVersion(
  { key, revision }: VersionPlace,
  log: Pick<EventLog, 'readStream'>,
): Promise<RecordedVersion | undefined> {
  const from = { fromRevision: BigInt(revision), maxCount: 1 };
  for await (const { type, data, at } of log.readStream(streamName('workflow', key), from)) {
    if (type === workflowCreated.type) return { workflow: workflowCreated.data.parse(data), createdAt: Math.floor(at) };
  }
  return undefined;
}

/** Commands and events of the workflow of one scope. Pure: the guardrails in force come with the command. */
interface ScopeState {
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
