/** Selectors that can be entered in lists of models: of each model, and of each provider with all of its models. */
import { useAnswer } from '../../api/use-answer.ts';
import type { ListedModel } from './model-reasons.ts';

export function useModels(): readonly ListedModel[] | undefined {
  const { data } = useAnswer('/admin/models');
  return data?.map(({ provider_name, model }) => ({ provider: provider_name, model: model.id }));
}

export function useModelSuggestions(): readonly string[] {
  const models = useModels() ?? [];
  const providers = new Set(models.map(({ provider }) => `${provider}/`));
  return [...providers, ...models.map(({ provider, model }) => `${provider}/${model}`)];
}
