/** Why a user path may use a model or not: the lists of the path and of the paths above it. Pure. */

export interface PathLists {
  /** The list of a path; undefined for a path that the administrator does not see, or without a policy. */
  listOf(path: string): readonly string[] | undefined;
}

export interface ListedModel {
  readonly provider: string;
  readonly model: string;
}

export interface ModelReason {
  readonly selector: string;
  readonly allowed: boolean;
  readonly reason: string;
}

/** The path and all above it, the root first. */
export function pathAndAbove(path: string): string[] {
  const parts = path.split('/').filter((part) => part !== '');
  return ['/', ...parts.map((_, at) => `/${parts.slice(0, at + 1).join('/')}`)];
}

/** The entry of a list that has the model; undefined without one. */
export function matchingSelector(list: readonly string[], { provider, model }: ListedModel): string | undefined {
  return list.find((one) => one === '/' || one === `${provider}/` || one === `${provider}/${model}` || one === model);
}

/**
 * @param inheritedFrom the paths above with a list, also those that the administrator does not see
 * @param isAllowed the decision of the gateway
 */
export function modelReason(
  path: string,
  model: ListedModel,
  { listOf }: PathLists,
  inheritedFrom: readonly string[],
  isAllowed: boolean,
): ModelReason {
  const selector = `${model.provider}/${model.model}`;
  const lists = [...inheritedFrom.filter((above) => above !== path), path].flatMap((at) => {
    const list = listOf(at);
    if (list === undefined) return inheritedFrom.includes(at) ? [{ at, entry: undefined, isUnseen: true }] : [];
    return list.length === 0 ? [] : [{ at, entry: matchingSelector(list, model), isUnseen: false }];
  });
  const nameOf = (at: string) => (at === path ? 'its own list' : `the list of ${at}`);
  if (!isAllowed) {
    const narrowing = lists.find(({ entry, isUnseen }) => entry === undefined && !isUnseen);
    const unseen = lists.find(({ isUnseen }) => isUnseen);
    if (narrowing !== undefined) return { selector, allowed: false, reason: `not in ${nameOf(narrowing.at)}` };
    if (unseen !== undefined) return { selector, allowed: false, reason: `excluded above your subtree` };
    return { selector, allowed: false, reason: 'excluded by a policy of the model' };
  }
  if (lists.length === 0) return { selector, allowed: true, reason: 'no list restricts it' };
  const parts = lists.map(({ at, entry }) => (entry === undefined ? nameOf(at) : `${nameOf(at)} (${entry})`));
  return { selector, allowed: true, reason: `in ${parts.join(' and in ')}` };
}
