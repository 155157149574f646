import { createAnthropic } from './anthropic/anthropic.ts';
import { createAzure } from './azure.ts';
import { createLlamacpp } from './llamacpp/llamacpp.ts';
import { createOllama } from './ollama/ollama.ts';
import { createOpenAiCompatible } from './openai-compatible/openai-compatible.ts';
import type { Provider } from './provider.ts';
import type { ProviderConfig } from './provider-config.ts';
import { providerType } from './types.ts';

/** @throws Error when the type is unknown or the base URL is invalid; the message names the provider */
export function createProvider(config: ProviderConfig): Provider {
  const row = providerType(config.type);
  if (row === undefined) throw new Error(`provider ${config.name}: there is no provider type ${config.type}`);
  try {
    if (config.type === 'anthropic') return createAnthropic(config, row);
    if (config.type === 'ollama') return createOllama(config, row);
    if (config.type === 'azure') return createAzure(config, row);
    if (config.type === 'llamacpp') return createLlamacpp(config, row);
    return createOpenAiCompatible(config, { row });
  } catch (error) {
    throw new Error(`provider ${config.name}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}
