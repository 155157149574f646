/** The virtual models in force: those of administrators, and over them those of the configuration. */
import type { UserPath } from '../../events/event.ts';
import type { ModelPolicies } from '../access/model-policies.ts';
import { Refusal } from '../refusal.ts';
import { AccessPolicies } from './access-policies.ts';
import { problemAround } from './chains.ts';
import type { KnownStrategies } from './route-strategies.ts';
import { isRedirect, type VirtualModel } from './virtual-model.ts';
import { type KnownProviders, type VirtualModelInput, virtualModelFrom } from './virtual-model-input.ts';

/** A virtual model that an administrator created. Times are milliseconds since the epoch. */
export interface StoredVirtualModel {
  readonly model: VirtualModel;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly revision: number;
}

export interface StoredVirtualModels {
  readonly bySource: ReadonlyMap<string, StoredVirtualModel>;
  /** Changes with each change of a virtual model. */
  readonly version: number;
}

export type DeclaredVirtualModels = ReadonlyMap<string, VirtualModel>;

/**
 * @param warn called for each declaration that cannot work now
 * @throws Error that names the virtual model and its problem
 */
export function declaredVirtualModels(
  input: readonly VirtualModelInput[],
  providers: KnownProviders,
  routeStrategies: KnownStrategies,
  warn: (message: string) => void,
): DeclaredVirtualModels {
  // The plugin that has a strategy may be loaded later.
  const loadable: KnownStrategies = {
    has: (name) => routeStrategies.has(name),
    names: () => routeStrategies.names(),
    problem: (plugin) => (routeStrategies.has(plugin.name) ? routeStrategies.problem(plugin) : undefined),
  };
  const declared = new Map<string, VirtualModel>();
  for (const one of input) {
    for (const provider of unknownProvidersOf(one, providers)) {
      warn(`virtual model ${one.source}: there is no provider named ${provider}`);
    }
    // A provider that is left out because its key is missing must not prevent the start of the gateway.
    const model = virtualModelFrom(one, { ...providers, knows: () => true }, loadable);
    if (model instanceof Refusal) {
      throw new Error(`virtual_models: '${one.source}' cannot be as it is declared: ${model.message}`);
    }
    if (model.plugin !== undefined && !routeStrategies.has(model.plugin.name)) {
      warn(`virtual model ${one.source}: no route strategy named ${model.plugin.name} is loaded`);
    }
    if (declared.has(model.source)) throw new Error(`virtual_models: '${model.source}' is declared twice`);
    declared.set(model.source, model);
  }
  for (const source of declared.keys()) {
    const problem = problemAround(source, declared);
    if (problem === undefined) continue;
    const what = problem.kind === 'cycle' ? problem.path.join(' → ') : `${problem.depth} one behind another`;
    throw new Error(`virtual_models: '${source}' cannot be resolved: ${what}`);
  }
  return declared;
}

function unknownProvidersOf({ targets = [] }: VirtualModelInput, providers: KnownProviders): string[] {
  return targets.flatMap(({ provider }) => (provider === undefined || providers.knows(provider) ? [] : [provider]));
}

interface InForce {
  readonly all: ReadonlyMap<string, VirtualModel>;
  /** The enabled virtual models with targets. */
  readonly redirects: ReadonlyMap<string, VirtualModel>;
  readonly policies: AccessPolicies;
}

export interface DirectoryOptions {
  stored(): StoredVirtualModels;
  readonly declared: DeclaredVirtualModels;
  /** Whether a model without a policy may be used. */
  readonly enabledByDefault: boolean;
}

/** Recomputed only after a change, so a request finds everything prepared. */
export class VirtualModelDirectory {
  readonly enabledByDefault: boolean;
  readonly #declared: DeclaredVirtualModels;
  readonly #stored: () => StoredVirtualModels;
  #seen: StoredVirtualModels | undefined;
  #seenVersion = -1;
  #inForce: InForce = { all: new Map(), redirects: new Map(), policies: new AccessPolicies([], true) };

  constructor({ stored, declared, enabledByDefault }: DirectoryOptions) {
    this.#stored = stored;
    this.#declared = declared;
    this.enabledByDefault = enabledByDefault;
  }

  /** All virtual models, including policies. */
  get all(): ReadonlyMap<string, VirtualModel> {
    return this.#current().all;
  }

  /** The enabled virtual models with targets, by name. */
  get redirects(): ReadonlyMap<string, VirtualModel> {
    return this.#current().redirects;
  }

  isManaged(source: string): boolean {
    return this.#declared.has(source);
  }

  /** Undefined for a declared one. */
  storedAs(source: string): StoredVirtualModel | undefined {
    return this.#declared.has(source) ? undefined : this.#stored().bySource.get(source);
  }

  /** The policy that decides about a model; undefined when the default does. */
  policyOf(provider: string, model: string): VirtualModel | undefined {
    const source = this.policies.deciding(provider, model);
    return source === undefined ? undefined : this.all.get(source);
  }

  readonly policies: ModelPolicies = policiesOf(() => this.#current().policies);

  #current(): InForce {
    const stored = this.#stored();
    if (stored !== this.#seen || stored.version !== this.#seenVersion) {
      this.#seen = stored;
      this.#seenVersion = stored.version;
      this.#inForce = inForce(stored, this.#declared, this.enabledByDefault);
    }
    return this.#inForce;
  }
}

function inForce(stored: StoredVirtualModels, declared: DeclaredVirtualModels, enabledByDefault: boolean): InForce {
  const all = new Map<string, VirtualModel>();
  for (const [source, { model }] of stored.bySource) all.set(source, model);
  for (const [source, model] of declared) all.set(source, model);
  const redirects = new Map([...all].filter(([, model]) => isRedirect(model) && model.enabled));
  return { all, redirects, policies: new AccessPolicies(all.values(), enabledByDefault) };
}

function policiesOf(current: () => AccessPolicies): ModelPolicies {
  return {
    get any() {
      return current().any;
    },
    allows: (userPath: UserPath | undefined, provider, model) => current().allows(userPath, provider, model),
    allowsProvider: (userPath, provider, extent) => current().allowsProvider(userPath, provider, extent),
    deciding: (provider, model) => current().deciding(provider, model),
  };
}
