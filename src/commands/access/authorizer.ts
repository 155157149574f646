/**
 * Whether a caller may use a model. Three checks apply: the model policies, the key's own list, and the lists of the
 * caller's user path and of every path above it. All of them have to allow the model.
 */
import { LRUCache } from 'lru-cache';
import type { UserPath } from '../../events/event.ts';
import type { Denial, ModelAccess, ModelCaller, ModelPolicies } from './model-access.ts';
import { type SelectorList, selectorList } from './selector.ts';

/** The lists of allowed models that are set at user paths. */
export interface UserLists {
  /** Canonical selectors set at exactly this path; undefined or empty when nothing is set there. */
  at(path: UserPath): readonly string[] | undefined;
}

/** The lists in force now. */
export interface CurrentUserLists extends UserLists {
  /** Whether there is any list. */
  readonly any: boolean;
  /** Changes with each change of a list. */
  readonly version: number;
}

export interface Policies<Lists extends UserLists = UserLists> {
  readonly users: Lists;
  readonly models: ModelPolicies;
}

/** One check and its result. */
export interface AccessStep {
  readonly check: 'model policy' | 'key' | 'user path';
  /** The policy's selector (`default` when none decides), the key's id, or the user path. */
  readonly subject: string;
  readonly allowed: boolean;
  /** The list that was checked; undefined for a model policy. */
  readonly list?: readonly string[];
}

interface Decision {
  readonly allowed: boolean;
  /** Every check, including those after the first that refused. */
  readonly steps: readonly AccessStep[];
}

/** The decision of `ModelAccess`, step by step. Pure: works with the current policies or those of an earlier time. */
export function decide(caller: ModelCaller, provider: string, model: string, { users, models }: Policies): Decision {
  const { key, userPath } = caller;
  const steps: AccessStep[] = [
    {
      check: 'model policy',
      subject: models.deciding(provider, model) ?? 'default',
      allowed: models.allows(userPath, provider, model),
    },
  ];
  if (key !== undefined && key.allowedModels.length > 0) {
    const list = key.allowedModels;
    steps.push({ check: 'key', subject: key.id, allowed: selectorList(list).has(provider, model), list });
  }
  for (const path of pathAndAbove(userPath)) {
    const list = users.at(path);
    if (list === undefined || list.length === 0) continue;
    steps.push({ check: 'user path', subject: path, allowed: selectorList(list).has(provider, model), list });
  }
  return { allowed: steps.every(({ allowed }) => allowed), steps };
}

/** The path and all paths above it, the root first; empty for a caller without a path. */
export function pathAndAbove(path: UserPath | undefined): UserPath[] {
  if (path === undefined) return [];
  const paths = ['/' as UserPath];
  for (let end = path.indexOf('/', 1); end !== -1; end = path.indexOf('/', end + 1)) {
    paths.push(path.slice(0, end) as UserPath);
  }
  if (path !== '/') paths.push(path);
  return paths;
}

/** Paths come from headers too, so the number of cached paths is bounded. `max` would allocate them at once. */
const MAX_PATHS_KEPT = 10_000;

const none: readonly SelectorList[] = [];

export function createAuthorizer({ users, models }: Policies<CurrentUserLists>): ModelAccess {
  let version = users.version;
  const chains = new LRUCache<UserPath, readonly SelectorList[]>({ maxSize: MAX_PATHS_KEPT, sizeCalculation: () => 1 });

  /** The lists of a path and of the paths above it. */
  function chainOf(path: UserPath | undefined): readonly SelectorList[] {
    if (path === undefined || !users.any) return none;
    if (version !== users.version) {
      version = users.version;
      chains.clear();
    }
    let chain = chains.get(path);
    if (chain === undefined) {
      chain = pathAndAbove(path).flatMap((one) => listed(users.at(one)));
      chains.set(path, chain);
    }
    return chain;
  }

  function denial({ userPath, key, origin }: ModelCaller, provider: string, model: string): Denial | undefined {
    if (origin === 'plugin') return undefined;
    if (models.any && !models.allows(userPath, provider, model)) return 'not available';
    for (const list of chainOf(userPath)) if (!list.has(provider, model)) return 'not available';
    if (key === undefined || key.allowedModels.length === 0) return undefined;
    return selectorList(key.allowedModels).has(provider, model) ? undefined : 'not available for this key';
  }

  return {
    denial,
    allows: (caller, provider, model) => denial(caller, provider, model) === undefined,
    restricts: ({ userPath, key, origin }) =>
      origin !== 'plugin' &&
      (models.any || (key !== undefined && key.allowedModels.length > 0) || chainOf(userPath).length > 0),
    allowsProvider({ userPath, key }, provider, extent) {
      if (models.any && !models.allowsProvider(userPath, provider, extent)) return false;
      if (key !== undefined && !selectorList(key.allowedModels).hasOf(provider, extent)) return false;
      return chainOf(userPath).every((list) => list.hasOf(provider, extent));
    },
  };
}

function listed(list: readonly string[] | undefined): SelectorList[] {
  return list === undefined || list.length === 0 ? [] : [selectorList(list)];
}

/** The listed models that a user path or a key may use, by the rules of the authorizer. */
interface ServedModel {
  readonly provider: string;
  /** The provider's own id of the model. */
  readonly model: string;
}

/** Used for one answer: it caches its results, so the policies must not change meanwhile. */
export class EffectiveModels {
  readonly #catalogue: readonly ServedModel[];
  readonly #policies: Policies;
  /** By path: the models that the lists of the path and of those above it allow. */
  readonly #listed = new Map<UserPath | undefined, readonly ServedModel[]>();
  readonly #effective = new Map<UserPath | undefined, readonly ServedModel[]>();
  readonly #selectors = new Map<readonly ServedModel[], readonly string[]>();

  constructor(catalogue: readonly ServedModel[], policies: Policies) {
    this.#catalogue = catalogue;
    this.#policies = policies;
  }

  /** Selectors `<provider>/<model>`. @param keyList the key's own list, which may restrict the path's models further */
  of(path: UserPath | undefined, keyList: readonly string[] = []): readonly string[] {
    const models = this.#at(path);
    if (keyList.length > 0) return narrowed(models, keyList).map(selectorOf);
    let selectors = this.#selectors.get(models);
    if (selectors === undefined) {
      selectors = models.map(selectorOf);
      this.#selectors.set(models, selectors);
    }
    return selectors;
  }

  /** Whether a list at the path, or above it, is in force. */
  restricts(path: UserPath | undefined): boolean {
    return pathAndAbove(path).some((one) => hasEntries(this.#policies.users.at(one)));
  }

  /** The paths above this one that have a list of their own, the root first. */
  inheritedFrom(path: UserPath): readonly UserPath[] {
    return pathAndAbove(path).filter((one) => one !== path && hasEntries(this.#policies.users.at(one)));
  }

  #at(path: UserPath | undefined): readonly ServedModel[] {
    let models = this.#effective.get(path);
    if (models === undefined) {
      const { models: sides } = this.#policies;
      const listed = this.#left(path);
      models = sides.any ? listed.filter(({ provider, model }) => sides.allows(path, provider, model)) : listed;
      this.#effective.set(path, models);
    }
    return models;
  }

  /** Lists only restrict: a path has the models of the path above it, without those that its own list excludes. */
  #left(path: UserPath | undefined): readonly ServedModel[] {
    if (path === undefined) return this.#catalogue;
    let models = this.#listed.get(path);
    if (models === undefined) {
      const above = path === '/' ? this.#catalogue : this.#left(parentOf(path));
      models = narrowed(above, this.#policies.users.at(path) ?? []);
      this.#listed.set(path, models);
    }
    return models;
  }
}

function selectorOf({ provider, model }: ServedModel): string {
  return `${provider}/${model}`;
}

function parentOf(path: UserPath): UserPath {
  return (path.slice(0, path.lastIndexOf('/')) || '/') as UserPath;
}

/** Returns the same array when the list excludes nothing. */
function narrowed(models: readonly ServedModel[], list: readonly string[]): readonly ServedModel[] {
  if (list.length === 0 || models.length === 0) return models;
  const selectors = selectorList(list);
  return models.filter(({ provider, model }) => selectors.has(provider, model));
}

function hasEntries(list: readonly string[] | undefined): boolean {
  return list !== undefined && list.length > 0;
}
