/** Commands and events of a guardrail. Pure: facts about workflows come with the command. */
import { guardrailRemoved, guardrailSaved } from '../../events/catalogue/guardrail.ts';
import type { EventContext, NewEvent } from '../../events/event.ts';
import { canonicalJson } from '../canonical-json.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import type { Guardrail } from './guardrail.ts';
import { type GuardrailProblem, isPrepared, type PreparedGuardrail } from './prepared-guardrail.ts';

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

export type GuardrailCommand = {
  /** Whether the configuration declares it. */
  readonly isManaged: boolean;
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

export const guardrailDecider: Decider<Guardrail | undefined, GuardrailCommand> = {
  initial: undefined,
  dependsOn: 'other streams',
  decide,
  evolve,
};

function decide(command: GuardrailCommand, state: Guardrail | undefined): readonly NewEvent[] | Refusal {
  const { isManaged, uses, context } = command;
  if (command.kind === 'remove') {
    const { name } = command;
    if (isManaged) return refusals.guardrailManaged(name);
    if (state === undefined) return refusals.notFound('guardrail', name);
    const scopes = uses.scopesUsing(name);
    if (scopes.length > 0) {
      return refusals.guardrailInUse(`Active workflows use the guardrail '${name}': ${listed(scopes)}.`, 'name');
    }
    return [guardrailRemoved.create({ name }, context)];
  }
  const { guardrail, prepared } = command;
  const { name } = guardrail;
  if (isManaged) return refusals.guardrailManaged(name);
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

function evolve(state: Guardrail | undefined, { type, data }: DecidedEvent): Guardrail | undefined {
  if (type === guardrailSaved.type) return guardrailSaved.data.parse(data);
  return type === guardrailRemoved.type ? undefined : state;
}
