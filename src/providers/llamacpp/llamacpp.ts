/** llama.cpp's server, and any other local server with OpenAI's API. */
import { listedEntries, providerModelOf } from '../openai-compatible/model-list.ts';
import { createOpenAiCompatible, notAListing } from '../openai-compatible/openai-compatible.ts';
import type { Provider } from '../provider.ts';
import type { ProviderConfig } from '../provider-config.ts';
import { isTemporary } from '../temporary-failure.ts';
import type { ProviderType } from '../types.ts';
import { llamacppMetadata } from './model-metadata.ts';

const PROPS_TIMEOUT_MS = 5_000;

export function createLlamacpp(config: ProviderConfig, row: ProviderType): Provider {
  return createOpenAiCompatible(config, {
    row,
    async listModels(readJson, base, signal) {
      const entries = listedEntries(await readJson(`${base.path}/models`, signal));
      if (entries === undefined) throw notAListing(config.name, 'JSON of another shape');
      // `/props` describes the one loaded model; in router mode each entry describes itself.
      let isLoading = false;
      const props = entries.length === 1 ? await readProps() : undefined;
      return entries.map((entry) => {
        const model = providerModelOf(entry, config.type, llamacppMetadata(entry, props));
        return isLoading ? { ...model, isIncomplete: true } : model;
      });

      /** A server lists its model before it is loaded, and answers `/props` with 503 until then. */
      async function readProps(): Promise<unknown> {
        try {
          return await readJson(`${base.root}/props`, signal, PROPS_TIMEOUT_MS);
        } catch (error) {
          isLoading = isTemporary(error);
          return undefined;
        }
      }
    },
  });
}
