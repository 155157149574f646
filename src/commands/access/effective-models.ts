/** Which of the listed models may be used at a user path, or with a key: what the authorizer would say of each. */
import type { UserPath } from '../../events/event.ts';
import { type Policies, pathAndAbove } from './authorizer.ts';
import { selectorList } from './selector.ts';

export interface ServedModel {
  readonly provider: string;
  /** The provider's own id. */
  readonly model: string;
}

/** For one answer: it keeps what it has worked out, so the policies must not change under it. */
export class EffectiveModels {
  readonly #catalogue: readonly ServedModel[];
  readonly #policies: Policies;
  /** By path: what the lists there and above leave over. */
  readonly #listed = new Map<UserPath | undefined, readonly ServedModel[]>();
  readonly #effective = new Map<UserPath | undefined, readonly ServedModel[]>();
  readonly #selectors = new Map<readonly ServedModel[], readonly string[]>();

  constructor(catalogue: readonly ServedModel[], policies: Policies) {
    this.#catalogue = catalogue;
    this.#policies = policies;
  }

  /** Selectors `<provider>/<model>`. @param keyList the list of the key, which may narrow the path's further */
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

  /** Lists only narrow, so a path has what the one above it has, without what its own list leaves out. */
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

/** The same array when the list leaves nothing out. */
function narrowed(models: readonly ServedModel[], list: readonly string[]): readonly ServedModel[] {
  if (list.length === 0 || models.length === 0) return models;
  const selectors = selectorList(list);
  return models.filter(({ provider, model }) => selectors.has(provider, model));
}

function hasEntries(list: readonly string[] | undefined): boolean {
  return list !== undefined && list.length > 0;
}
