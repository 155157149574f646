/**
 * Changes of virtual models under their guard: whether a change is valid depends on the other virtual models, so they
 * must not change between the decision and the append, on any gateway.
 */
import { virtualModelRemoved } from '../../events/catalogue/virtual-model.ts';
import type { EventContext, Position } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { Guard } from '../guard.ts';
import { executeCommand, type HandleOptions } from '../handle-command.ts';
import { refusals } from '../refusal.ts';
import {
  type VirtualModelCommand,
  type VirtualModelContext,
  virtualModelDecider,
  virtualModelStream,
} from './decider.ts';
import type { VirtualModelDirectory } from './directory.ts';
import type { VirtualModel } from './virtual-model.ts';

export interface ChangeOptions {
  readonly log: EventLog;
  readonly directory: VirtualModelDirectory;
  /** Whether a provider serves a model of this name now. */
  readonly serves: (model: string) => boolean;
  /** Resolves when the directory has processed everything up to this position. */
  whenProcessed(position: Position): Promise<void>;
}

export interface ChangeContext {
  readonly context: EventContext;
  /** The revision that the caller read last; for a rename, the revision of the old name. */
  readonly ifRevision: bigint | 'noStream' | undefined;
}

export interface Changed {
  /** Undefined when it was removed, or was not stored because it changes nothing. */
  readonly model: VirtualModel | undefined;
  readonly revision: bigint | 'noStream';
}

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

  /** @param renames the current name, when the change includes a rename. @throws Refusal */
  save(model: VirtualModel, renames: string | undefined, change: ChangeContext): Promise<Changed> {
    const { source } = model;
    const { context, ifRevision } = change;
    return this.#guard.run(context, (conditions) => {
      const command = { kind: 'save', source, model, renames, around: this.#around(), context } as const;
      if (renames === undefined) return this.#execute(command, { ifRevision, conditions });
      return this.#execute(command, { conditions, ...this.#leavingName(renames, source, change) });
    });
  }

  /** @throws Refusal */
  remove(source: string, { context, ifRevision }: ChangeContext): Promise<Changed> {
    return this.#guard.run(context, (conditions) =>
      this.#execute({ kind: 'remove', source, around: this.#around(), context }, { ifRevision, conditions }),
    );
  }

  /** The other half of a rename: the old name is removed in the same append. */
  #leavingName(
    old: string,
    source: string,
    { context, ifRevision }: ChangeContext,
  ): Pick<HandleOptions<VirtualModel | undefined>, 'alsoWrite'> {
    const stored = this.#options.directory.storedAs(old);
    const stream = virtualModelStream(old);
    const revision = stored === undefined ? ('noStream' as const) : BigInt(stored.revision);
    if (ifRevision !== undefined && ifRevision !== revision) throw refusals.revisionMismatch(stream, revision);
    const events = [virtualModelRemoved.create({ source: old, renamedTo: source }, context)];
    return { alsoWrite: () => [{ stream, events, expectedRevision: revision }] };
  }

  async #execute(
    command: VirtualModelCommand,
    options: Pick<HandleOptions<VirtualModel | undefined>, 'ifRevision' | 'conditions' | 'alsoWrite'>,
  ): Promise<Changed> {
    const { log, whenProcessed } = this.#options;
    const stream = virtualModelStream(command.source);
    const { state, revision, position } = await executeCommand(virtualModelDecider, command, {
      log,
      stream,
      ...options,
    });
    if (position !== undefined) await whenProcessed(position);
    return { model: state, revision };
  }

  #around(): VirtualModelContext {
    const { directory } = this.#options;
    const { all, enabledByDefault } = directory;
    const { serves } = this.#options;
    return { models: all, enabledByDefault, isManaged: (source) => directory.isManaged(source), serves };
  }
}
