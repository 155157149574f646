/** Ollama, through its own API. */
import { isObject } from '../../json/is-object.ts';
import { parseBaseUrl } from '../base-url.ts';
import { createOpenAiCompatible, notAListing, type ReadJson } from '../openai-compatible/openai-compatible.ts';
import type { Provider, ProviderModel } from '../provider.ts';
import type { ProviderConfig } from '../provider-config.ts';
import { isTemporary } from '../temporary-failure.ts';
import type { ProviderType } from '../types.ts';
import { type InstalledModel, installedModels, ollamaModel } from './model-metadata.ts';

/** Each description takes a call, so only these first models are described, a few at a time. */
const MAX_DESCRIBED = 64;
const DESCRIBED_AT_ONCE = 4;
const DESCRIBE_TIMEOUT_MS = 5000;
/** Time limit of all descriptions together: the list must not wait longer. */
const DESCRIBE_ALL_MS = 6000;

/** A base URL may end in `/v1`, like those of OpenAI's clients: Ollama's own routes are outside of it. */
export function createOllama(config: ProviderConfig, row: ProviderType): Provider {
  const given = parseBaseUrl(config.baseUrl, row.defaultPath);
  const base = { ...given, path: given.root };
  return createOpenAiCompatible(config, {
    row,
    base,
    async listModels(readJson, { path }, signal) {
      const installed = installedModels(await readJson(`${path}/api/tags`, signal));
      if (installed === undefined) throw notAListing(config.name, 'JSON of another shape');
      return described(installed, path, readJson, signal);
    },
  });
}

async function described(
  installed: readonly InstalledModel[],
  path: string,
  readJson: ReadJson,
  signal: AbortSignal,
): Promise<ProviderModel[]> {
  const shown = new Map<string, unknown>();
  const busy = new Set<string>();
  const waiting = installed.slice(0, MAX_DESCRIBED).values();
  const patience = AbortSignal.any([signal, AbortSignal.timeout(DESCRIBE_ALL_MS)]);
  const describeNext = async (): Promise<void> => {
    for (const { id } of waiting) {
      if (patience.aborted) return;
      try {
        shown.set(id, await readJson(`${path}/api/show`, patience, DESCRIBE_TIMEOUT_MS, { model: id }));
      } catch (error) {
        // The model is listed without its description.
        if (!patience.aborted && isTemporary(error)) busy.add(id);
      }
    }
  };
  await Promise.all(Array.from({ length: DESCRIBED_AT_ONCE }, describeNext));
  return installed.map((model) => {
    const description = shown.get(model.id);
    const listed = ollamaModel(model, isObject(description) ? description : {});
    return busy.has(model.id) ? { ...listed, isIncomplete: true } : listed;
  });
}
