/** Changes of guardrails, one at a time, and none beside a change of a workflow on any gateway, which may name the guardrail. */
import type { EventContext, Position } from '../../events/event.ts';
import type { EventLog, StreamWrite } from '../../events/log.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import type { Guard } from '../guard.ts';
import { executeCommand } from '../handle-command.ts';
import { Refusal, refusals } from '../refusal.ts';
import { type GuardrailCommand, guardrailDecider, type WorkflowUses } from './decider.ts';
import type { GuardrailDirectory } from './directory.ts';
import { type Guardrail, type GuardrailTypes, guardrailStream } from './guardrail.ts';
import { type GuardrailInput, guardrailFrom, guardrailName } from './guardrail-input.ts';

export interface GuardrailChangesOptions {
  readonly log: EventLog;
  readonly directory: Pick<GuardrailDirectory, 'isManaged' | 'prepare' | 'storedAs'>;
  readonly types: GuardrailTypes;
  readonly uses: WorkflowUses;
  readonly sealers: Pick<SealerSource, 'toSeal'>;
  /** Whether guardrails of administrators may not call a server with this valid URL. */
  refusesAddress(url: string): Promise<boolean>;
  /** The same as that of the changes of workflows. */
  readonly guard: Guard;
  /** Resolves when the directory has processed everything up to this position. */
  whenProcessed(position: Position): Promise<void>;
}

export interface GuardrailChange {
  readonly context: EventContext;
  /** The revision that the caller read last. */
  readonly ifRevision?: bigint | 'noStream' | undefined;
}

export interface ChangedGuardrail {
  /** Undefined when it was removed. */
  readonly guardrail: Guardrail | undefined;
  readonly revision: bigint | 'noStream';
}

export class GuardrailChanges {
  readonly #options: GuardrailChangesOptions;

  constructor(options: GuardrailChangesOptions) {
    this.#options = options;
  }

  /** Creates or replaces a guardrail. @throws Refusal */
  async save(input: GuardrailInput, change: GuardrailChange): Promise<ChangedGuardrail> {
    const { guard, directory, uses } = this.#options;
    // Resolving a name takes time: other changes do not wait for it.
    await this.#checkAddress(input);
    return guard.run(change.context, async (conditions) => {
      const guardrail = this.draft(input);
      const { name } = guardrail;
      const facts = { isManaged: directory.isManaged(name), uses, context: change.context };
      const prepared = directory.prepare(guardrail);
      return this.#execute(name, { kind: 'save', guardrail, prepared, ...facts }, { ...change, conditions });
    });
  }

  /** @throws Refusal 400 `guardrail_address_refused` */
  async #checkAddress({ type, config = {} }: GuardrailInput): Promise<void> {
    const { types, refusesAddress } = this.#options;
    const key = types.get(type)?.serverAddress;
    const url = key === undefined ? undefined : config[key];
    // An invalid address is refused with the rest of the configuration.
    if (typeof url !== 'string' || !/^https?:/i.test(url) || !URL.canParse(url) || !(await refusesAddress(url))) return;
    throw refusals.invalidRequest(
      `'config.${key}' resolves to a loopback, link-local or cloud metadata address: declare the guardrail in the configuration, or set ALLOW_PRIVATE_PROVIDERS=true.`,
      `config.${key}`,
      'guardrail_address_refused',
    );
  }

  /** The definition that `save` would store. Its configuration is not checked yet. @throws Refusal 400 */
  draft(input: GuardrailInput): Guardrail {
    const { directory, types, sealers } = this.#options;
    return accepted(guardrailFrom(input, types, directory.storedAs(input.name.trim())?.guardrail, sealers));
  }

  /** @throws Refusal: 404 for an unknown name, 400 while an active workflow uses it */
  remove(written: string, change: GuardrailChange): Promise<ChangedGuardrail> {
    const { guard, directory, uses } = this.#options;
    return guard.run(change.context, async (conditions) => {
      const name = accepted(guardrailName(written));
      const facts = { isManaged: directory.isManaged(name), uses, context: change.context };
      return this.#execute(name, { kind: 'remove', name, ...facts }, { ...change, conditions });
    });
  }

  async #execute(
    name: string,
    command: GuardrailCommand,
    { ifRevision, conditions }: GuardrailChange & { readonly conditions: readonly StreamWrite[] },
  ): Promise<ChangedGuardrail> {
    const { log, whenProcessed } = this.#options;
    const options = { log, stream: guardrailStream(name), ifRevision, conditions };
    const { state, revision, position } = await executeCommand(guardrailDecider, command, options);
    if (position !== undefined) await whenProcessed(position);
    return { guardrail: state, revision };
  }
}

function accepted<Value>(value: Value | Refusal): Value {
  if (value instanceof Refusal) throw value;
  return value;
}
