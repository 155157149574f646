import type { ModelMetadata, ProviderModel } from './provider.ts';
import type { ConfiguredModel, ModelsMode } from './provider-config.ts';

export interface ModelsConfig {
  readonly models: readonly ConfiguredModel[];
  readonly modelsMode: ModelsMode;
}

/**
 * The known models of a provider: its own list combined with the configured models, according to the configured mode.
 * @param listed undefined when it has never returned a list
 */
export function knownModels(
  { models, modelsMode }: ModelsConfig,
  listed: readonly ProviderModel[] | undefined,
  owner: string,
): ProviderModel[] {
  const fromProvider = listed ?? [];
  const byId = new Map(fromProvider.map((model) => [model.id, model]));
  const configured = models.map((model) => declared(model, byId.get(model.id), owner));
  if (modelsMode === 'allowlist' || (modelsMode === 'fallback' && fromProvider.length === 0)) return configured;
  const overrides = new Map(configured.map((model) => [model.id, model]));
  const described = fromProvider.map((model) => overrides.get(model.id) ?? model);
  return modelsMode === 'fallback' ? described : [...described, ...configured.filter(({ id }) => !byId.has(id))];
}

function declared({ id, metadata }: ConfiguredModel, listed: ProviderModel | undefined, owner: string): ProviderModel {
  const merged = mergeMetadata(listed?.metadata, metadata);
  const { created, ownedBy } = listed ?? { created: 0, ownedBy: owner };
  return { id, created, ownedBy, ...(merged === undefined ? {} : { metadata: merged }) };
}

/** Declared metadata wins, member by member, and capability by capability. */
function mergeMetadata(
  reported: ModelMetadata | undefined,
  alsoDeclared: ModelMetadata | undefined,
): ModelMetadata | undefined {
  if (reported === undefined || alsoDeclared === undefined) return alsoDeclared ?? reported;
  const capabilities = { ...reported.capabilities, ...alsoDeclared.capabilities };
  return { ...reported, ...alsoDeclared, ...(Object.keys(capabilities).length === 0 ? {} : { capabilities }) };
}
