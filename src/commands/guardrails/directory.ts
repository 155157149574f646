/** The guardrails in force: those of administrators, and over them those that the configuration declares. */
import type { Guardrail } from './guardrail.ts';
import type { GuardrailProblem, PreparedGuardrail } from './prepared-guardrail.ts';

/** A guardrail that an administrator defined. Times are milliseconds since the epoch. */
export interface StoredGuardrail {
  readonly guardrail: Guardrail;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly revision: number;
}

export interface StoredGuardrails {
  readonly byName: ReadonlyMap<string, StoredGuardrail>;
  /** Changes with each change of a guardrail. */
  readonly version: number;
}

export type DeclaredGuardrails = ReadonlyMap<string, Guardrail>;

export interface GuardrailDirectoryOptions {
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
