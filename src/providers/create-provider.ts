import { isObject } from '../json/is-object.ts';
import { type BaseUrl, createOpenAiCompatible, notAListing, parseBaseUrl, type ReadJson } from './openai-compatible.ts';
import {
  type ModelMetadata,
  type Provider,
  ProviderFailure,
  type ProviderModel,
  type ProxiedProviderConfig,
} from './provider.ts';
import { type ListedEntry, listedEntries, positiveCount, providerModelOf } from './provider-listing.ts';
import { type ProviderType, providerType } from './types.ts';
import { UpstreamError } from './upstream-error.ts';

/** @throws Error when the type is unknown or the base URL is invalid; the message names the provider */
export function createProvider(config: ProxiedProviderConfig): Provider {
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

/** Azure OpenAI, with either form of its base URL. */
const DEFAULT_API_VERSION = '2024-10-21';

/**
 * `https://X.openai.azure.com/openai/v1` names the deployment in the body, like OpenAI, and needs no `api-version`.
 * `https://X.openai.azure.com/openai/deployments/D` is the older form: one deployment, chat and embeddings only, and
 * `api-version` on every call. Its model listing contains deployable models, so the deployment itself is the list.
 */
function createAzure(config: ProxiedProviderConfig, row: ProviderType): Provider {
  const base = parseBaseUrl(config.baseUrl, row.defaultPath);
  const deployment = /\/openai\/deployments\/([^/]+)$/.exec(base.path)?.[1];
  if (deployment === undefined) return createOpenAiCompatible(config, { row, base });
  const model = { id: decodeURIComponent(deployment), created: 0, ownedBy: 'azure' };
  return createOpenAiCompatible(config, {
    row: {
      ...row,
      responses: 'no',
      responseLifecycle: 'no',
      serves: ['completions', 'speech', 'transcriptions', 'images'],
    },
    base: versioned(base, config.options['apiVersion'] ?? DEFAULT_API_VERSION),
    listModels: async () => [model],
  });
}

function versioned(base: BaseUrl, apiVersion: string): BaseUrl {
  const query = new URLSearchParams(base.query);
  if (!query.has('api-version')) query.set('api-version', apiVersion);
  return { ...base, query: query.toString() };
}

/** llama.cpp's server, and any other local server with OpenAI's API. */
const PROPS_TIMEOUT_MS = 5_000;

function createLlamacpp(config: ProxiedProviderConfig, row: ProviderType): Provider {
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

/**
 * The context window is the server's size per slot: `meta.n_ctx` of the entry, which older builds lack; then
 * `default_generation_settings.n_ctx` of `/props`; then the trained size, which is only an upper bound. Modalities that
 * `/props` reports as true become capabilities.
 * @param props the server's `/props`; undefined when it serves several models, which that route does not describe
 */
function llamacppMetadata({ entry }: ListedEntry, props: unknown): ModelMetadata {
  const meta = isObject(entry['meta']) ? entry['meta'] : {};
  const known = isObject(props) ? props : {};
  const settings = isObject(known['default_generation_settings']) ? known['default_generation_settings'] : {};
  const modalities = isObject(known['modalities']) ? known['modalities'] : {};
  const context =
    positiveCount(meta['n_ctx']) ?? positiveCount(settings['n_ctx']) ?? positiveCount(meta['n_ctx_train']);
  const capabilities = Object.fromEntries(
    ['vision', 'video', 'audio'].filter((name) => modalities[name] === true).map((name) => [name, true]),
  );
  return {
    ...(context === undefined ? {} : { context_window: context }),
    ...(Object.keys(capabilities).length === 0 ? {} : { capabilities }),
  };
}

/** The largest page that Anthropic returns. */
const PAGE = 1000;
const MAX_PAGES = 10;

/** @throws Error when the default limit on output tokens is not a positive integer */
function createAnthropic(config: ProxiedProviderConfig, row: ProviderType): Provider {
  const limit = config.options['defaultMaxTokens'];
  if (limit !== undefined && limit !== '' && !/^[1-9]\d{0,8}$/.test(limit)) {
    throw new Error(`the default limit on output tokens must be a positive integer, but is '${limit}'`);
  }
  return createOpenAiCompatible(config, {
    row,
    async listModels(readJson, base, signal) {
      const found: ListedEntry[] = [];
      let after = '';
      for (let page = 0; page < MAX_PAGES; page++) {
        const listing = await readJson(`${base.path}/models?limit=${PAGE}${after}`, signal);
        const entries = listedEntries(listing);
        if (entries === undefined) throw notAListing(config.name, 'JSON of another shape');
        found.push(...entries);
        const last = isObject(listing) && listing['has_more'] === true ? listing['last_id'] : undefined;
        if (typeof last !== 'string' || last === '') break;
        after = `&after_id=${encodeURIComponent(last)}`;
      }
      return found.map((listed) => {
        const created = releasedAt(listed);
        const dated = { ...listed, entry: { ...listed.entry, created } };
        return providerModelOf(dated, config.type, anthropicMetadata(listed));
      });
    },
  });
}

/** Anthropic's names of capabilities that other listings name differently. */
const names: ReadonlyMap<string, string> = new Map([['image_input', 'vision']]);

function anthropicMetadata({ entry }: ListedEntry): ModelMetadata {
  const context = positiveCount(entry['max_input_tokens']);
  const output = positiveCount(entry['max_tokens']);
  const listed = isObject(entry['capabilities']) ? Object.entries(entry['capabilities']) : [];
  const supported = listed.filter(([, support]) => isObject(support) && support['supported'] === true);
  const capabilities = Object.fromEntries(supported.map(([name]) => [names.get(name) ?? name, true]));
  return {
    ...(context === undefined ? {} : { context_window: context }),
    ...(output === undefined ? {} : { max_output_tokens: output }),
    ...(supported.length === 0 ? {} : { capabilities }),
  };
}

/** Unix seconds; 0 when unknown. */
function releasedAt({ entry }: ListedEntry): number {
  const at = typeof entry['created_at'] === 'string' ? Date.parse(entry['created_at']) : Number.NaN;
  return Number.isNaN(at) ? 0 : Math.max(0, Math.trunc(at / 1000));
}

/** Each description takes a call, so only these first models are described, a few at a time. */
const MAX_DESCRIBED = 64;
const DESCRIBED_AT_ONCE = 4;
const DESCRIBE_TIMEOUT_MS = 5000;
/** Time limit of all descriptions together: the list must not wait longer. */
const DESCRIBE_ALL_MS = 6000;

/** A base URL may end in `/v1`, like those of OpenAI's clients: Ollama's own routes are outside of it. */
function createOllama(config: ProxiedProviderConfig, row: ProviderType): Provider {
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

const TEMPORARY = new Set([408, 425, 429, 502, 503, 504]);

/** Whether a later attempt may succeed after this error; not for a route that the server does not have. */
function isTemporary(error: unknown): boolean {
  if (error instanceof UpstreamError) return TEMPORARY.has(error.facts.status);
  return error instanceof ProviderFailure && error.kind !== 'too_large';
}

/** Model metadata from Ollama. */
type Members = Readonly<Record<string, unknown>>;

interface InstalledModel {
  readonly id: string;
  readonly entry: Members;
}

const MAX_ID_LENGTH = 512;

/** Reads `/api/tags`; undefined when the body is not a listing. */
function installedModels(body: unknown): InstalledModel[] | undefined {
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
function ollamaModel({ id, entry }: InstalledModel, shown: Members): ProviderModel {
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
