/** Which callers may use which models. Routing, listings and everything else that names a model use it. */

import type { UserPath } from '../../events/event.ts';
import type { Caller } from '../model-request/model-request.ts';

/** The parts of a caller that decide access. */
export type ModelCaller = Pick<Caller, 'userPath' | 'key' | 'origin'>;

/** Why a model may not be used: the key's own list excludes it, or the rules for all callers at the path do. */
export type Denial = 'not available for this key' | 'not available';

export interface ModelAccess {
  /**
   * Decided from memory, synchronously.
   * @param provider the instance's name
   * @param model the provider's own id
   */
  allows(caller: ModelCaller, provider: string, model: string): boolean;
  /** Like `allows`, with the reason of a refusal; undefined when the model is allowed. */
  denial(caller: ModelCaller, provider: string, model: string): Denial | undefined;
  /** Whether any list or policy could refuse this caller a model; if not, callers can skip the checks. */
  restricts(caller: ModelCaller): boolean;
  /**
   * For requests that name no model. `all`: every model of the provider, including unlisted ones that its own API
   * offers; `any`: at least one.
   */
  allowsProvider(caller: ModelCaller, provider: string, extent: 'all' | 'any'): boolean;
}

/** The listed models that one caller may use; others are left out. */
interface Listed {
  readonly provider: string;
  /** The provider's own id of the model. */
  readonly model: string;
}

interface Listing<Model> {
  list(): readonly Model[];
  /** The listed model that a selector names. */
  find(selector: string): Model | undefined;
}

export interface VisibleModels<Model> {
  list(caller: ModelCaller): readonly Model[];
  find(selector: string, caller: ModelCaller): Model | undefined;
}

export function visibleModels<Model extends Listed>(models: Listing<Model>, access: ModelAccess): VisibleModels<Model> {
  const isVisible = (caller: ModelCaller, { provider, model }: Model) => access.allows(caller, provider, model);
  return {
    list: (caller) =>
      access.restricts(caller) ? models.list().filter((model) => isVisible(caller, model)) : models.list(),
    find(selector, caller) {
      const found = models.find(selector);
      return found !== undefined && isVisible(caller, found) ? found : undefined;
    },
  };
}

/** Model policies: for which callers a model, a provider or everything is switched on or off. */
export interface ModelPolicies {
  /** Whether any policy could refuse a model; if not, the checks can be skipped. */
  readonly any: boolean;
  /**
   * The most specific policy decides: of this model at this provider, of the provider, of the model at any provider,
   * of everything.
   */
  allows(userPath: UserPath | undefined, provider: string, model: string): boolean;
  /** `all`: no model of the provider is refused, known or not; `any`: at least one may be used. */
  allowsProvider(userPath: UserPath | undefined, provider: string, extent: 'all' | 'any'): boolean;
  /** The selector of the policy that decides; undefined when none does and the default applies. */
  deciding(provider: string, model: string): string | undefined;
}
