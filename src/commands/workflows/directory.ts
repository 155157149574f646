/** The workflows in force, compiled. A request finds its own by a few lookups in memory. */
import type { GuardrailCatalogue } from './chains.ts';
import { type CompiledWorkflow, compileWorkflow } from './compile.ts';
import type { WorkflowFeatures, WorkflowVersion } from './workflow.ts';
import { WorkflowIndex } from './workflow-index.ts';

/** The active version of a scope. */
export interface StoredWorkflow {
  readonly workflow: WorkflowVersion;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Of its event. */
  readonly revision: number;
}

/** Where the log has a version: versions that are not active are read when they are needed. */
export interface VersionPlace {
  /** Of its scope. */
  readonly key: string;
  readonly revision: number;
}

export interface StoredWorkflows {
  /** The active versions by the key of their scope. */
  readonly active: ReadonlyMap<string, StoredWorkflow>;
  /** All versions by their id. */
  readonly places: ReadonlyMap<string, VersionPlace>;
  /** Changes with each change of a workflow. */
  readonly version: number;
}

export interface WorkflowDirectoryOptions {
  stored(): StoredWorkflows;
  readonly guardrails: GuardrailCatalogue & { readonly version: number };
  /** What the configuration of the process allows. */
  readonly switches: WorkflowFeatures;
}

interface InForce {
  readonly byId: ReadonlyMap<string, CompiledWorkflow>;
  readonly index: WorkflowIndex<CompiledWorkflow>;
}

/** A version is compiled once, and again after a change of the guardrails. */
export class WorkflowDirectory {
  readonly #options: WorkflowDirectoryOptions;
  #seen: StoredWorkflows | undefined;
  #seenVersion = -1;
  #seenGuardrails = -1;
  #inForce: InForce = { byId: new Map(), index: new WorkflowIndex([]) };

  constructor(options: WorkflowDirectoryOptions) {
    this.#options = options;
  }

  /** The workflow of a request; undefined when there is no global one and no other matches. */
  select(
    userPath: string | undefined,
    provider: string | undefined,
    model: string | undefined,
  ): CompiledWorkflow | undefined {
    return this.#current().index.find(userPath, provider, model);
  }

  /** The active workflows. */
  get active(): Iterable<CompiledWorkflow> {
    return this.#current().byId.values();
  }

  /** Undefined when it is not active. */
  activeById(id: string): CompiledWorkflow | undefined {
    return this.#current().byId.get(id);
  }

  storedAs(key: string): StoredWorkflow | undefined {
    return this.#options.stored().active.get(key);
  }

  placeOf(id: string): VersionPlace | undefined {
    return this.#options.stored().places.get(id);
  }

  /** Any version, active or not, with the guardrails in force. */
  compile(workflow: WorkflowVersion): CompiledWorkflow {
    const { guardrails, switches } = this.#options;
    return this.activeById(workflow.id) ?? compileWorkflow(workflow, guardrails, switches);
  }

  #current(): InForce {
    const { stored, guardrails } = this.#options;
    const now = stored();
    const areSame = guardrails.version === this.#seenGuardrails;
    if (now !== this.#seen || now.version !== this.#seenVersion || !areSame) {
      this.#inForce = this.#compiled(now, areSame);
      this.#seen = now;
      this.#seenVersion = now.version;
      this.#seenGuardrails = guardrails.version;
    }
    return this.#inForce;
  }

  /** @param areSame whether the guardrails are those of the last time, so that compiled versions are still valid */
  #compiled({ active }: StoredWorkflows, areSame: boolean): InForce {
    const { guardrails, switches } = this.#options;
    const known = this.#inForce.byId;
    const compiled = [...active.values()].map(({ workflow }) => {
      const found = areSame ? known.get(workflow.id) : undefined;
      return found ?? compileWorkflow(workflow, guardrails, switches);
    });
    return {
      byId: new Map(compiled.map((one) => [one.workflow.id, one])),
      index: new WorkflowIndex(compiled.map((one) => [one.workflow.scope, one])),
    };
  }
}
