/** The guardrails in force: those of administrators, and over them those that the configuration declares. */

import type { UserPath } from '../../events/event.ts';
import type { SavedObjects } from '../../projections/administered.ts';
import { ObjectsInForce } from '../administered.ts';
import { Refusal } from '../refusal.ts';
import {
  type Guardrail,
  type GuardrailProblem,
  type GuardrailTypes,
  guardrailName,
  isPrepared,
  type PreparedGuardrail,
} from './guardrail.ts';
import type { GuardrailPhase } from './guardrail-type.ts';

interface GuardrailDirectoryOptions {
  readonly stored: { readonly state: SavedObjects<Guardrail> };
  readonly declared: Map<string, Guardrail>;
  prepare(guardrail: Guardrail): PreparedGuardrail | GuardrailProblem;
}

/** A definition is compiled when it is first needed, once: it is replaced when it changes, never altered. */
export class GuardrailDirectory {
  readonly inForce: ObjectsInForce<Guardrail>;
  readonly #prepare: GuardrailDirectoryOptions['prepare'];
  readonly #prepared = new WeakMap<Guardrail, PreparedGuardrail | GuardrailProblem>();

  constructor({ stored, declared, prepare }: GuardrailDirectoryOptions) {
    this.inForce = new ObjectsInForce(stored, declared);
    this.#prepare = prepare;
  }

  /** Ready to run, or the reason why it cannot. */
  prepared(name: string): PreparedGuardrail | GuardrailProblem {
    const guardrail = this.inForce.get(name);
    return guardrail === undefined ? { problem: `there is no guardrail '${name}'` } : this.prepare(guardrail);
  }

  /** The same for a definition that need not be in force. */
  prepare(guardrail: Guardrail): PreparedGuardrail | GuardrailProblem {
    let found = this.#prepared.get(guardrail);
    if (found === undefined) {
      found = this.#prepare(guardrail);
      this.#prepared.set(guardrail, found);
    }
    return found;
  }
}

/** The guardrails that the configuration declares, and their steps in the default workflow. Pure. */
export interface GuardrailRule {
  readonly name: string;
  readonly type: string;
  readonly description?: string | undefined;
  readonly userPath?: UserPath | undefined;
  /** The settings of the type, with its secrets. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly failMode?: 'closed' | 'open' | undefined;
  readonly timeoutMs?: number | undefined;
  /** Of the default workflow. Default: the prompt phase; empty: none. */
  readonly phases?: readonly GuardrailPhase[] | undefined;
  /** Of the default workflow. Default: the place of the rule in the list. */
  readonly step?: number | undefined;
}

interface DeclaredRules {
  readonly guardrails: Map<string, Guardrail>;
  /** Of the default workflow. */
  readonly steps: readonly { readonly ref: string; readonly phase: GuardrailPhase; readonly step: number }[];
}

/**
 * @param mayLack whether a type may be unknown, because its plugin could not be loaded: requests of workflows with its
 * guardrails are then refused
 * @throws Error that names the guardrail and its problem
 */
export function declaredGuardrails(
  rules: readonly GuardrailRule[],
  types: GuardrailTypes,
  prepare: (guardrail: Guardrail) => PreparedGuardrail | GuardrailProblem,
  mayLack = false,
): DeclaredRules {
  const guardrails = new Map<string, Guardrail>();
  const steps: DeclaredRules['steps'][number][] = [];
  for (const [place, rule] of rules.entries()) {
    const name = guardrailName(rule.name);
    if (name instanceof Refusal) throw new Error(`guardrails.rules.${place}: ${name.message}`);
    if (guardrails.has(name)) throw new Error(`guardrails.rules: '${name}' is declared twice`);
    const guardrail = definitionOf(name, rule, types);
    const prepared = prepare(guardrail);
    if (mayLack && !types.has(rule.type)) {
      guardrails.set(name, guardrail);
      for (const phase of rule.phases ?? ['prompt' as const]) {
        steps.push({ ref: name, phase, step: rule.step ?? place });
      }
      continue;
    }
    if (!isPrepared(prepared)) throw new Error(`guardrails.rules: '${name}' is invalid: ${prepared.problem}`);
    guardrails.set(name, guardrail);
    for (const phase of rule.phases ?? ['prompt' as const]) {
      const problem = prepared.type.phases.includes(phase)
        ? prepared.config.phaseProblem(phase)
        : `its type '${rule.type}' has no such phase`;
      if (problem !== undefined) {
        throw new Error(`guardrails.rules: '${name}' cannot run in the ${phase} phase: ${problem}`);
      }
      steps.push({ ref: name, phase, step: rule.step ?? place });
    }
  }
  return { guardrails, steps };
}

function definitionOf(name: string, rule: GuardrailRule, types: GuardrailTypes): Guardrail {
  const { type, description, userPath, config, failMode = 'closed', timeoutMs = 0 } = rule;
  return {
    name,
    type,
    ...(description === undefined ? {} : { description }),
    ...(userPath === undefined ? {} : { userPath }),
    config: { ...types.get(type)?.defaults, ...config },
    failMode,
    timeoutMs,
  };
}
