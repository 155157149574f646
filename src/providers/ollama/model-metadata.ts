/** Model metadata from Ollama. */
import { isObject } from '../../json/is-object.ts';
import { positiveCount } from '../openai-compatible/model-list.ts';
import type { ModelMetadata, ProviderModel } from '../provider.ts';

type Members = Readonly<Record<string, unknown>>;

export interface InstalledModel {
  readonly id: string;
  readonly entry: Members;
}

const MAX_ID_LENGTH = 512;

/** Reads `/api/tags`; undefined when the body is not a listing. */
export function installedModels(body: unknown): InstalledModel[] | undefined {
  if (!isObject(body) || !Array.isArray(body['models'])) return undefined;
  const found = new Map<string, InstalledModel>();
  for (const entry of body['models'].filter(isObject)) {
    const id = entry['model'] ?? entry['name'];
    if (typeof id === 'string' && id !== '' && id.length <= MAX_ID_LENGTH && !found.has(id))
      found.set(id, { id, entry });
  }
  return [...found.values()];
}

/** @param shown the model's `/api/show`, empty when it could not be read */
export function ollamaModel({ id, entry }: InstalledModel, shown: Members): ProviderModel {
  const modified = typeof entry['modified_at'] === 'string' ? Date.parse(entry['modified_at']) : Number.NaN;
  const metadata = metadataOf(entry, shown);
  return {
    id,
    created: Number.isNaN(modified) ? 0 : Math.max(0, Math.trunc(modified / 1000)),
    ownedBy: 'ollama',
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

function metadataOf(entry: Members, shown: Members): ModelMetadata {
  const details = isObject(entry['details']) ? entry['details'] : {};
  const { family } = details;
  const context = contextWindow(shown);
  const listed = Array.isArray(shown['capabilities']) ? shown['capabilities'] : [];
  const names = listed.filter((name) => typeof name === 'string');
  const modes = [
    ...(names.includes('completion') ? ['chat'] : []),
    ...(names.includes('embedding') ? ['embedding'] : []),
  ];
  const abilities = names.filter((name) => name !== 'completion' && name !== 'embedding');
  return {
    ...(typeof family === 'string' && family !== '' ? { family } : {}),
    ...(context === undefined ? {} : { context_window: context }),
    ...(modes.length === 0 ? {} : { modes }),
    ...(abilities.length === 0 ? {} : { capabilities: Object.fromEntries(abilities.map((name) => [name, true])) }),
  };
}

/** The configured context window, else the trained one, which is only an upper bound. */
function contextWindow({ parameters, model_info: info }: Members): number | undefined {
  const configured = typeof parameters === 'string' ? /^num_ctx\s+(\d+)\s*$/m.exec(parameters)?.[1] : undefined;
  if (configured !== undefined) return positiveCount(Number(configured));
  if (!isObject(info)) return undefined;
  const { 'general.architecture': architecture } = info;
  return typeof architecture === 'string' ? positiveCount(info[`${architecture}.context_length`]) : undefined;
}
