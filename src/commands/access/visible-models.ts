/** The listed models that one caller may use; others are left out. */
import type { ModelAccess, ModelCaller } from './model-access.ts';

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
