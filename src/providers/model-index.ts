/** Models by selector, computed once per change of a list so that a request costs one look-up. */
import { type ModelCategory, modelCategoryOf } from './classify.ts';
import type { ModelMetadata, Provider, ProviderModel } from './provider.ts';

/** A model as in `GET /v1/models` and on the dashboard. */
export interface ListedModel {
  /** The selector `<provider>/<model>`. */
  readonly id: string;
  readonly provider: string;
  readonly providerType: string;
  /** The provider's own id. */
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: ModelMetadata;
  readonly category?: ModelCategory;
}

export interface IndexedModel {
  readonly provider: Provider;
  readonly model: string;
  readonly listed: ListedModel;
}

export interface ModelIndex {
  /** In the order of the providers, then of their lists. */
  readonly list: readonly ListedModel[];
  /** By every selector: instance and model, type and model, bare id. An ambiguous one belongs to the first. */
  readonly bySelector: ReadonlyMap<string, IndexedModel>;
}

interface Inventory {
  readonly provider: Provider;
  readonly models: readonly ProviderModel[];
}

export function indexModels(inventories: readonly Inventory[]): ModelIndex {
  const all = inventories.flatMap(({ provider, models }) => models.map((model) => indexed(provider, model)));
  const bySelector = new Map<string, IndexedModel>();
  const add = (selector: string, model: IndexedModel): void => {
    if (!bySelector.has(selector)) bySelector.set(selector, model);
  };
  for (const model of all) add(model.listed.id, model);
  for (const model of all) add(`${model.provider.type}/${model.model}`, model);
  for (const model of all) add(model.model, model);
  return { list: all.map(({ listed }) => listed), bySelector };
}

function indexed(provider: Provider, { id, created, ownedBy, metadata }: ProviderModel): IndexedModel {
  const category = modelCategoryOf(id, metadata);
  return {
    provider,
    model: id,
    listed: {
      id: `${provider.name}/${id}`,
      provider: provider.name,
      providerType: provider.type,
      model: id,
      created,
      ownedBy,
      ...(metadata === undefined ? {} : { metadata }),
      ...(category === undefined ? {} : { category }),
    },
  };
}
