/** The virtual models in force: those of administrators, and over them those of the configuration. */
import type { UserPath } from '../../events/event.ts';
import type { SavedObjects } from '../../projections/administered.ts';
import type { ModelPolicies } from '../access/model-access.ts';
import { parseSelector, type Selector } from '../access/selector.ts';
import { ObjectsInForce } from '../administered.ts';
import { Refusal } from '../refusal.ts';
import { chainedName, isFor, isRedirect, type KnownStrategies, MAX_DEPTH, type VirtualModel } from './virtual-model.ts';
import { type KnownProviders, type VirtualModelInput, virtualModelFrom } from './virtual-model-input.ts';

/**
 * @param warn called for each declaration that cannot work now
 * @throws Error that names the virtual model and its problem
 */
export function declaredVirtualModels(
  input: readonly VirtualModelInput[],
  providers: KnownProviders,
  routeStrategies: KnownStrategies,
  warn: (message: string) => void,
): Map<string, VirtualModel> {
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

interface DirectoryOptions {
  readonly stored: { readonly state: SavedObjects<VirtualModel> };
  readonly declared: Map<string, VirtualModel>;
  /** Whether a model without a policy may be used. */
  readonly enabledByDefault: boolean;
}

/** Recomputed only after a change, so a request finds everything prepared. */
export class VirtualModelDirectory {
  readonly inForce: ObjectsInForce<VirtualModel>;
  /** Those of the configuration. */
  readonly declared: Map<string, VirtualModel>;
  readonly enabledByDefault: boolean;
  readonly policies: ModelPolicies;
  readonly #current: () => InForce;

  constructor({ stored, declared, enabledByDefault }: DirectoryOptions) {
    this.inForce = new ObjectsInForce(stored, declared);
    this.declared = declared;
    this.enabledByDefault = enabledByDefault;
    this.#current = this.inForce.derive((all) => ({
      all,
      redirects: new Map([...all].filter(([, model]) => isRedirect(model) && model.enabled)),
      policies: new AccessPolicies(all.values(), enabledByDefault),
    }));
    this.policies = policiesOf(() => this.#current().policies);
  }

  /** All virtual models, including policies. */
  get all(): ReadonlyMap<string, VirtualModel> {
    return this.#current().all;
  }

  /** The enabled virtual models with targets, by name. */
  get redirects(): ReadonlyMap<string, VirtualModel> {
    return this.#current().redirects;
  }

  /** The policy that decides about a model; undefined when the default does. */
  policyOf(provider: string, model: string): VirtualModel | undefined {
    const source = this.policies.deciding(provider, model);
    return source === undefined ? undefined : this.all.get(source);
  }
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

/** Chains of virtual models that lead to other virtual models. Pure. */
export type ChainProblem =
  /** The names in the cycle, with the first one repeated at the end. */
  | { readonly kind: 'cycle'; readonly path: readonly string[] }
  /** The number of virtual models in the chain. */
  | { readonly kind: 'too deep'; readonly depth: number };

type Models = ReadonlyMap<string, VirtualModel>;

/** The names of the virtual models that lead to this one. */
export function usersOf(source: string, models: Models): string[] {
  return [...models.values()].filter((one) => nextOf(one, models).includes(source)).map((one) => one.source);
}

/** The problem of the chains that contain this virtual model; problems of other chains are not checked. */
export function problemAround(source: string, models: Models): ChainProblem | undefined {
  const cycle = pathBack(source, models);
  if (cycle !== undefined) return { kind: 'cycle', path: cycle };
  const ahead = longest(source, (name) => successors(name, models), new Map());
  const users = Map.groupBy(
    [...models.values()].flatMap((one) => nextOf(one, models).map((next) => ({ next, from: one.source }))),
    ({ next }) => next,
  );
  const behind = longest(source, (name) => users.get(name)?.map(({ from }) => from) ?? [], new Map());
  const depth = ahead + behind - 1;
  return depth > MAX_DEPTH ? { kind: 'too deep', depth } : undefined;
}

function successors(name: string, models: Models): readonly string[] {
  const model = models.get(name);
  return model === undefined ? [] : nextOf(model, models);
}

/** The virtual models that it leads to, including disabled ones, which may be enabled again. */
function nextOf(model: VirtualModel, models: Models): string[] {
  return model.targets.flatMap((target) => {
    const name = chainedName(model, target);
    return name !== undefined && (models.get(name)?.targets.length ?? 0) > 0 ? [name] : [];
  });
}

/** The shortest cycle from a name back to itself. */
function pathBack(source: string, models: Models): string[] | undefined {
  const cameFrom = new Map<string, string>();
  const waiting = [source];
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    for (const next of successors(name, models)) {
      if (cameFrom.has(next)) continue;
      cameFrom.set(next, name);
      if (next === source) return around(source, cameFrom);
      waiting.push(next);
    }
  }
  return undefined;
}

function around(source: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const path = [source];
  for (let name = cameFrom.get(source); name !== undefined && name !== source; name = cameFrom.get(name)) {
    path.unshift(name);
  }
  return [source, ...path];
}

/**
 * Number of names on the longest path from here, including this one. A cycle elsewhere counts each of its names once.
 */
function longest(name: string, next: (name: string) => readonly string[], known: Map<string, number>): number {
  const before = known.get(name);
  if (before !== undefined) return before;
  known.set(name, 0);
  const length = 1 + Math.max(0, ...next(name).map((one) => longest(one, next, known)));
  known.set(name, length);
  return length;
}

/**
 * Model policies: which callers may use which models. Only the most specific policy decides: of this model at this
 * provider, of the provider, of the model at any provider, of everything; without a policy, the default.
 */
export class AccessPolicies implements ModelPolicies {
  readonly any: boolean;
  readonly #enabledByDefault: boolean;
  readonly #exact = new Map<string, VirtualModel>();
  readonly #providers = new Map<string, VirtualModel>();
  readonly #models = new Map<string, VirtualModel>();
  #everything: VirtualModel | undefined;
  /** The policies of single models, by their provider. */
  readonly #exactOf = new Map<string, VirtualModel[]>();

  /** @param all the virtual models; only the policies among them are used */
  constructor(all: Iterable<VirtualModel>, enabledByDefault: boolean) {
    this.#enabledByDefault = enabledByDefault;
    let count = 0;
    for (const one of all) {
      if (isRedirect(one)) continue;
      count += 1;
      this.#add(one, parseSelector(one.source));
    }
    this.any = count > 0 || !enabledByDefault;
  }

  #add(policy: VirtualModel, selector: Selector): void {
    if (selector.kind === 'everything') this.#everything = policy;
    else if (selector.kind === 'provider') this.#providers.set(selector.provider, policy);
    else if (selector.kind === 'model') this.#models.set(selector.model, policy);
    else {
      this.#exact.set(policy.source, policy);
      const others = this.#exactOf.get(selector.provider);
      if (others === undefined) this.#exactOf.set(selector.provider, [policy]);
      else others.push(policy);
    }
  }

  allows(userPath: UserPath | undefined, provider: string, model: string): boolean {
    return this.#decides(this.#deciding(provider, model), userPath);
  }

  deciding(provider: string, model: string): string | undefined {
    return this.#deciding(provider, model)?.source;
  }

  allowsProvider(userPath: UserPath | undefined, provider: string, extent: 'all' | 'any'): boolean {
    const ofProvider = this.#providers.get(provider);
    // A policy of the whole provider precedes those that name a model at any provider.
    const others = ofProvider === undefined ? [...this.#models.values()] : [];
    const single = [...(this.#exactOf.get(provider) ?? []), ...others].map((policy) => this.#decides(policy, userPath));
    const rest = this.#decides(ofProvider ?? this.#everything, userPath);
    return extent === 'all' ? rest && single.every(Boolean) : rest || single.some(Boolean);
  }

  #deciding(provider: string, model: string): VirtualModel | undefined {
    const exact = this.#exact.size === 0 ? undefined : this.#exact.get(`${provider}/${model}`);
    return exact ?? this.#providers.get(provider) ?? this.#models.get(model) ?? this.#everything;
  }

  #decides(policy: VirtualModel | undefined, userPath: UserPath | undefined): boolean {
    if (policy === undefined) return this.#enabledByDefault;
    return policy.enabled && isFor(policy.userPaths, userPath);
  }
}

/**
 * Whether the policy changes any decision. It does not when every less specific policy of the same models decides the
 * same.
 */
export function hasEffect(policy: VirtualModel, others: Iterable<VirtualModel>, enabledByDefault: boolean): boolean {
  if (policy.userPaths.length > 0 || policy.enabled !== enabledByDefault) return true;
  const selector = parseSelector(policy.source);
  for (const other of others) {
    if (isRedirect(other) || other.source === policy.source) continue;
    const isSame = other.userPaths.length === 0 && other.enabled === policy.enabled;
    if (!isSame && isAbove(parseSelector(other.source), selector)) return true;
  }
  return false;
}

/** Whether `one` decides about some of the models of `other` when `other` is missing. */
function isAbove(one: Selector, other: Selector): boolean {
  switch (other.kind) {
    case 'everything':
      return false;
    case 'model':
      return one.kind === 'everything';
    case 'provider':
      return one.kind === 'everything' || one.kind === 'model';
    case 'exact':
      if (one.kind === 'provider') return one.provider === other.provider;
      return one.kind === 'everything' || (one.kind === 'model' && one.model === other.model);
  }
}
