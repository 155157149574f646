/** Model policies: for which callers a model, a provider or everything is switched on or off. */
import type { UserPath } from '../../events/event.ts';

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
