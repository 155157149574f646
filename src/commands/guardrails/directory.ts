/** The guardrails in force: those of administrators, and over them those that the configuration declares. */

import type { UserPath } from '../../events/event.ts';
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

/** A guardrail that an administrator defined. Times are milliseconds since the epoch. */
interface StoredGuardrail {
  readonly guardrail: Guardrail;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly revision: number;
}

interface StoredGuardrails {
  readonly byName: ReadonlyMap<string, StoredGuardrail>;
  /** Changes with each change of a guardrail. */
  readonly version: number;
}

export type DeclaredGuardrails = ReadonlyMap<string, Guardrail>;

interface GuardrailDirectoryOptions {
  stored(): StoredGuardrails;
  readonly declared: DeclaredGuardrails;
  prepare(guardrail: Guardrail): PreparedGuardrail | GuardrailProblem;
}

/** A definition is compiled when it is first needed, once: it is replaced when it changes, never altered. */
export class GuardrailDirectory {
  readonly #options: GuardrailDirectoryOptions;
  readonly #prepared = new WeakMap<Guardrail, PreparedGuardrail | GuardrailProblem>();

  #seen: StoredGuardrails | undefined;
  #seenVersion = -1;
  #version = 0;

  constructor(options: GuardrailDirectoryOptions) {
    this.#options = options;
  }

  /** Differs after each change. */
  get version(): number {
    const stored = this.#options.stored();
    if (stored !== this.#seen || stored.version !== this.#seenVersion) {
      this.#seen = stored;
      this.#seenVersion = stored.version;
      this.#version += 1;
    }
    return this.#version;
  }

  get(name: string): Guardrail | undefined {
    return this.#options.declared.get(name) ?? this.#options.stored().byName.get(name)?.guardrail;
  }

  /** Sorted by name. */
  get all(): readonly Guardrail[] {
    const names = new Set([...this.#options.declared.keys(), ...this.#options.stored().byName.keys()]);
    return [...names].sort().flatMap((name) => this.get(name) ?? []);
  }

  isManaged(name: string): boolean {
    return this.#options.declared.has(name);
  }

  /** Undefined for a declared one. */
  storedAs(name: string): StoredGuardrail | undefined {
    return this.isManaged(name) ? undefined : this.#options.stored().byName.get(name);
  }

  /** Ready to run, or the reason why it cannot. */
  prepared(name: string): PreparedGuardrail | GuardrailProblem {
    const guardrail = this.get(name);
    return guardrail === undefined ? { problem: `there is no guardrail '${name}'` } : this.prepare(guardrail);
  }

  /** The same for a definition that need not be in force. */
  prepare(guardrail: Guardrail): PreparedGuardrail | GuardrailProblem {
    let found = this.#prepared.get(guardrail);
    if (found === undefined) {
      found = this.#options.prepare(guardrail);
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
  readonly guardrails: DeclaredGuardrails;
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
