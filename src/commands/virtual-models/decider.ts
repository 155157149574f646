/** Commands and events of a virtual model, and their execution, one at a time. */
import { virtualModelRemoved, virtualModelSaved } from '../../events/catalogue/workflow.ts';
import { type EventContext, type NewEvent, type Position, type StreamName, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { evolveSaved } from '../administered.ts';
import { type Decider, Guard, type Handled, type HandleOptions, type RequestedChange } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { type ChainProblem, hasEffect, problemAround, usersOf, type VirtualModelDirectory } from './directory.ts';
import { isRedirect, MAX_DEPTH, type VirtualModel } from './virtual-model.ts';

/** The virtual models and providers around the one that changes. */
export interface VirtualModelContext {
  /** All virtual models in force, including this one if it exists. */
  readonly models: ReadonlyMap<string, VirtualModel>;
  isDeclared(source: string): boolean;
  readonly enabledByDefault: boolean;
  /** Whether a provider serves a model of this name now. */
  serves(model: string): boolean;
}

export type VirtualModelCommand = {
  readonly source: string;
  readonly around: VirtualModelContext;
  readonly context: EventContext;
} & (
  | {
      readonly kind: 'save';
      readonly model: VirtualModel;
      /** The current name, when the command includes a rename. */
      readonly renames?: string | undefined;
    }
  | { readonly kind: 'remove' }
);

export const virtualModelDecider: Decider<VirtualModel | undefined, VirtualModelCommand> = {
  initial: undefined,
  dependsOn: 'other streams',
  decide,
  evolve(state, event) {
    const next = evolveModel(state, event);
    if (next === undefined) return undefined;
    const { renamedFrom: _history, ...model } = next;
    return model;
  },
};

const evolveModel = evolveSaved(virtualModelSaved, virtualModelRemoved);

export function virtualModelStream(source: string): StreamName {
  return streamName('virtual-model', source);
}

function decide(command: VirtualModelCommand, state: VirtualModel | undefined): readonly NewEvent[] | Refusal {
  const { source, around, context } = command;
  if (around.isDeclared(source)) return refusals.virtualModelManaged(source);
  if (command.kind === 'remove') {
    if (state === undefined) return refusals.notFound('virtual model', source);
    return inUse(source, around) ?? [virtualModelRemoved.create({ source }, context)];
  }
  const { model, renames } = command;
  const refusal = renames === undefined ? undefined : notRenamed(source, renames, state, around);
  if (refusal !== undefined) return refusal;
  if (!isRedirect(model)) return decidePolicy(model, state, command);
  if (leadsToItself(model) && !around.serves(source)) {
    return refusals.invalidRequest(
      messageOfProblem({ kind: 'cycle', path: [source, source] }),
      'targets',
      'virtual_model_cycle',
    );
  }
  const models = new Map(around.models);
  if (renames !== undefined) models.delete(renames);
  models.set(source, model);
  const problem = problemAround(source, models);
  if (problem !== undefined) return refusals.invalidRequest(messageOfProblem(problem), 'targets', codeOf(problem));
  return saved(model, state, renames, context);
}

/** A policy without effect is not stored. */
function decidePolicy(
  model: VirtualModel,
  state: VirtualModel | undefined,
  { source, around, context, renames }: Extract<VirtualModelCommand, { kind: 'save' }>,
): readonly NewEvent[] | Refusal {
  const used = inUse(source, around);
  if (used !== undefined) return used;
  if (renames !== undefined || hasEffect(model, withoutOne(around.models, renames), around.enabledByDefault)) {
    return saved(model, state, renames, context);
  }
  return state === undefined ? [] : [virtualModelRemoved.create({ source }, context)];
}

function saved(
  model: VirtualModel,
  state: VirtualModel | undefined,
  renames: string | undefined,
  context: EventContext,
): readonly NewEvent[] {
  if (renames === undefined && isSame(model, state)) return [];
  const targets = model.targets.map((target) => ({ ...target }));
  const data = { ...model, targets, ...(renames === undefined ? {} : { renamedFrom: renames }) };
  return [virtualModelSaved.create(data, context)];
}

function notRenamed(
  source: string,
  renames: string,
  state: VirtualModel | undefined,
  around: VirtualModelContext,
): Refusal | undefined {
  if (around.isDeclared(renames)) return refusals.virtualModelManaged(renames);
  if (!around.models.has(renames)) return refusals.notFound('virtual model', renames);
  if (state !== undefined) return refusals.virtualModelExists(source);
  return inUse(renames, around);
}

function inUse(source: string, { models }: VirtualModelContext): Refusal | undefined {
  const users = usersOf(source, models);
  return users.length === 0 ? undefined : refusals.virtualModelInUse(source, users);
}

function* withoutOne(models: VirtualModelContext['models'], source: string | undefined): Iterable<VirtualModel> {
  for (const model of models.values()) if (model.source !== source) yield model;
}

/** A target with its own name is that provider model, if a provider has one. */
function leadsToItself({ source, targets }: VirtualModel): boolean {
  return targets.some(({ provider, model }) => provider === undefined && model === source);
}

function messageOfProblem(problem: ChainProblem): string {
  if (problem.kind === 'cycle') return `The virtual models would form a cycle: ${problem.path.join(' → ')}.`;
  return `The chain would have ${problem.depth} virtual models; at most ${MAX_DEPTH} are allowed.`;
}

function codeOf({ kind }: ChainProblem): string {
  return kind === 'cycle' ? 'virtual_model_cycle' : 'virtual_model_too_deep';
}

function isSame(one: VirtualModel, other: VirtualModel | undefined): boolean {
  return other !== undefined && isEqual(one, other);
}

function isEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one === other;
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].every((name) => isEqual(Reflect.get(one, name), Reflect.get(other, name)));
}

/**
 * Changes of virtual models under their guard: whether a change is valid depends on the other virtual models, so they
 * must not change between the decision and the append, on any gateway.
 */
interface ChangeOptions {
  readonly log: EventLog;
  readonly directory: VirtualModelDirectory;
  /** Whether a provider serves a model of this name now. */
  readonly serves: (model: string) => boolean;
  /** Resolves when the directory has processed everything up to this position. */
  whenProcessed(position: Position): Promise<void>;
}

/** Its state is undefined when it was removed, or was not stored because it changes nothing. */
type Changed = Handled<VirtualModel | undefined>;

export class VirtualModelChanges {
  readonly #options: ChangeOptions;
  readonly #guard: Guard;

  constructor(options: ChangeOptions) {
    this.#options = options;
    const { log } = options;
    this.#guard = new Guard({
      log,
      rule: 'virtual-models',
      whenProcessed: (position) => options.whenProcessed(position),
    });
  }

  /**
   * @param renames the current name, when the change includes a rename; the revision of the change is then that of this name
   * @throws Refusal
   */
  save(model: VirtualModel, renames: string | undefined, change: RequestedChange): Promise<Changed> {
    const { source } = model;
    const { context, ifRevision } = change;
    return this.#guard.run(context, async (execute) => {
      const command = { kind: 'save', source, model, renames, around: this.#around(), context } as const;
      const under = renames === undefined ? { ifRevision } : this.#leavingName(renames, source, change);
      return execute(virtualModelDecider, command, { stream: virtualModelStream(source), ...under });
    });
  }

  /** @throws Refusal */
  remove(source: string, { context, ifRevision }: RequestedChange): Promise<Changed> {
    return this.#guard.run(context, (execute) => {
      const command = { kind: 'remove', source, around: this.#around(), context } as const;
      return execute(virtualModelDecider, command, { stream: virtualModelStream(source), ifRevision });
    });
  }

  /** The other half of a rename: the old name is removed in the same append. */
  #leavingName(
    old: string,
    source: string,
    { context, ifRevision }: RequestedChange,
  ): Pick<HandleOptions<VirtualModel | undefined>, 'alsoWrite'> {
    const stored = this.#options.directory.inForce.savedAs(old);
    const stream = virtualModelStream(old);
    const revision = stored === undefined ? ('noStream' as const) : BigInt(stored.revision);
    if (ifRevision !== undefined && ifRevision !== revision) throw refusals.revisionMismatch(stream, revision);
    const events = [virtualModelRemoved.create({ source: old, renamedTo: source }, context)];
    return { alsoWrite: () => [{ stream, events, expectedRevision: revision }] };
  }

  #around(): VirtualModelContext {
    const { directory } = this.#options;
    const { all, enabledByDefault, inForce } = directory;
    const { serves } = this.#options;
    return { models: all, enabledByDefault, isDeclared: (source) => inForce.isDeclared(source), serves };
  }
}
