/**
 * Model policies: which callers may use which models. Only the most specific policy decides: of this model at this
 * provider, of the provider, of the model at any provider, of everything; without a policy, the default.
 */
import type { UserPath } from '../../events/event.ts';
import type { ModelPolicies } from '../access/model-policies.ts';
import { parseSelector, type Selector } from '../access/selector.ts';
import { isFor, isRedirect, type VirtualModel } from './virtual-model.ts';

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
