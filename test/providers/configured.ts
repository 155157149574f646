import type { ProxiedProviderConfig } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';

/** A provider's configuration with defaults for everything that a test does not set. */
export function configured(
  type: string,
  baseUrl: string,
  more: Partial<ProxiedProviderConfig> = {},
): ProxiedProviderConfig {
  return {
    name: type,
    type,
    baseUrl,
    apiKeys: [],
    models: [],
    modelsMode: 'fallback',
    options: {},
    source: 'environment',
    proxyOf: withoutProxy,
    ...more,
  };
}
