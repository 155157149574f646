/** What is set on the side of the models: for whom a model, a provider or everything is switched on or off. */
import type { UserPath } from '../../events/event.ts';

export interface ModelPolicies {
  /** Whether anything could be refused: when not, nobody needs to look. */
  readonly any: boolean;
  /** The most specific policy decides: of the very model, its provider, the model anywhere, everything. */
  allows(userPath: UserPath | undefined, provider: string, model: string): boolean;
  /** `all`: no model of the provider is refused, known or not; `any`: at least one may be used. */
  allowsProvider(userPath: UserPath | undefined, provider: string, extent: 'all' | 'any'): boolean;
  /** The selector of the policy that decides; undefined when none does, and the default holds. */
  deciding(provider: string, model: string): string | undefined;
}
