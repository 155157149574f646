/** The listed models that a user path or a key may use, by the rules of the authorizer. */
import type { UserPath } from '../../events/event.ts';
import { type Policies, pathAndAbove } from './authorizer.ts';
import { selectorList } from './selector.ts';

export interface ServedModel {
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
