/** Changes of guardrails, one at a time, and none beside a change of a workflow on any gateway, which may name the guardrail. */

import { guardrailRemoved, guardrailSaved } from '../../events/catalogue/guardrail.ts';
import type { EventContext, NewEvent } from '../../events/event.ts';
import { evolveSaved } from '../administered.ts';
import { canonicalJson } from '../canonical-json.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import type { Decider, Guard, Handled, RequestedChange } from '../handle-command.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { GuardrailDirectory } from './directory.ts';
import {
  type Guardrail,
  type GuardrailInput,
  type GuardrailProblem,
  type GuardrailTypes,
  guardrailFrom,
  guardrailName,
  guardrailStream,
  isPrepared,
  type PreparedGuardrail,
} from './guardrail.ts';

interface GuardrailChangesOptions {
  readonly directory: Pick<GuardrailDirectory, 'inForce' | 'prepare'>;
  readonly types: GuardrailTypes;
  readonly uses: WorkflowUses;
  readonly sealers: Pick<SealerSource, 'toSeal'>;
  /** Whether guardrails of administrators may not call a server with this valid URL. */
  refusesAddress(url: string): Promise<boolean>;
  /** The same as that of the changes of workflows. */
  readonly guard: Guard;
}

/** Its state is undefined when it was removed. */
type ChangedGuardrail = Handled<Guardrail | undefined>;

export class GuardrailChanges {
  readonly #options: GuardrailChangesOptions;

  constructor(options: GuardrailChangesOptions) {
    this.#options = options;
  }

  /** Creates or replaces a guardrail. @throws Refusal */
  async save(input: GuardrailInput, { context, ifRevision }: RequestedChange): Promise<ChangedGuardrail> {
    const { guard, directory, uses } = this.#options;
    // Resolving a name takes time: other changes do not wait for it.
    await this.#checkAddress(input);
    return guard.run(context, async (execute) => {
      const guardrail = this.draft(input);
      const { name } = guardrail;
      const facts = { isDeclared: directory.inForce.isDeclared(name), uses, context };
      const prepared = directory.prepare(guardrail);
      const command = { kind: 'save', guardrail, prepared, ...facts } as const;
      return execute(guardrailDecider, command, { stream: guardrailStream(name), ifRevision });
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
    return accepted(guardrailFrom(input, types, directory.inForce.savedAs(input.name.trim())?.value, sealers));
  }

  /** @throws Refusal: 404 for an unknown name, 400 while an active workflow uses it */
  remove(written: string, { context, ifRevision }: RequestedChange): Promise<ChangedGuardrail> {
    const { guard, directory, uses } = this.#options;
    return guard.run(context, async (execute) => {
      const name = accepted(guardrailName(written));
      const facts = { isDeclared: directory.inForce.isDeclared(name), uses, context };
      const command = { kind: 'remove', name, ...facts } as const;
      return execute(guardrailDecider, command, { stream: guardrailStream(name), ifRevision });
    });
  }
}

function accepted<Value>(value: Value | Refusal): Value {
  if (value instanceof Refusal) throw value;
  return value;
}

// Commands and events of a guardrail. Pure: facts about workflows come with the command.

/** What a changed guardrail would break. */
export interface BrokenUse {
  /** The scope and the phase of the workflow: `/team (stream)`. */
  readonly use: string;
  readonly problem: string;
}

/** The active workflows with guardrails. */
export interface WorkflowUses {
  /** The scopes of those that name the guardrail, for readers. */
  scopesUsing(name: string): readonly string[];
  /** The uses of a guardrail of this name that would not run with this definition. */
  brokenBy(guardrail: PreparedGuardrail): readonly BrokenUse[];
}

type GuardrailCommand = {
  /** Whether the configuration declares it. */
  readonly isDeclared: boolean;
  readonly uses: WorkflowUses;
  readonly context: EventContext;
} & (
  | {
      readonly kind: 'save';
      readonly guardrail: Guardrail;
      readonly prepared: PreparedGuardrail | GuardrailProblem;
    }
  | { readonly kind: 'remove'; readonly name: string }
);

const guardrailDecider: Decider<Guardrail | undefined, GuardrailCommand> = {
  initial: undefined,
  dependsOn: 'other streams',
  decide,
  evolve: evolveSaved(guardrailSaved, guardrailRemoved),
};

function decide(command: GuardrailCommand, state: Guardrail | undefined): readonly NewEvent[] | Refusal {
  const { isDeclared, uses, context } = command;
  if (command.kind === 'remove') {
    const { name } = command;
    if (isDeclared) return refusals.guardrailManaged(name);
    if (state === undefined) return refusals.notFound('guardrail', name);
    const scopes = uses.scopesUsing(name);
    if (scopes.length > 0) {
      return refusals.guardrailInUse(`Active workflows use the guardrail '${name}': ${listed(scopes)}.`, 'name');
    }
    return [guardrailRemoved.create({ name }, context)];
  }
  const { guardrail, prepared } = command;
  const { name } = guardrail;
  if (isDeclared) return refusals.guardrailManaged(name);
  if (!isPrepared(prepared)) {
    const { problem, param = 'config' } = prepared;
    return refusals.invalidRequest(`The configuration of '${name}' is invalid: ${problem}.`, param);
  }
  const [first, ...more] = uses.brokenBy(prepared);
  if (first !== undefined) {
    const broken = listed([first, ...more].map(({ use }) => use));
    const message = `Active workflows use '${name}' as it could not run any more: ${broken}. The reason: ${first.problem}.`;
    return refusals.guardrailInUse(message, 'type');
  }
  if (state !== undefined && canonicalJson(state) === canonicalJson(guardrail)) return [];
  return [guardrailSaved.create(guardrail, context)];
}

const MAX_LISTED = 10;

function listed(names: readonly string[]): string {
  const more = names.length - MAX_LISTED;
  return more > 0 ? `${names.slice(0, MAX_LISTED).join(', ')} and ${more} more` : names.join(', ');
}
