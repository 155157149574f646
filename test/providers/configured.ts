import type { ProviderConfig } from '../../src/providers/provider.ts';

/** A provider's configuration with defaults for everything that a test does not set. */
export function configured(type: string, baseUrl: string, more: Partial<ProviderConfig> = {}): ProviderConfig {
  return {
    name: type,
    type,
    baseUrl,
    apiKeys: [],
    models: [],
    modelsMode: 'fallback',
    options: {},
    source: 'environment',
    ...more,
  };
}
