/** The providers, their models, and the resolution of selectors. */

import type { ModelMetadata, Provider, ProviderModel } from './provider.ts';
import { type ModelsConfig, ProviderListing, type ProviderStatus } from './provider-listing.ts';
import { providerType } from './types.ts';

export interface RegisteredProvider {
  readonly provider: Provider;
  readonly config: ModelsConfig;
}

export interface RegistryOptions {
  /** In order: a bare model id resolves to the first that has it. */
  readonly providers: readonly RegisteredProvider[];
  /** The last good list of each provider, by name, so that the start does not depend on providers. */
  readonly known?: ReadonlyMap<string, readonly ProviderModel[]>;
  /** Milliseconds since the epoch. */
  clock?(): number;
  /** A provider's own list differs from the known one. Must not throw, like the two below. */
  onListed?(provider: string, models: readonly ProviderModel[]): void;
  onUnavailable?(provider: string, message: string): void;
  onAvailable?(provider: string): void;
  /** Default one hour. */
  readonly refreshIntervalMs?: number;
  /**
   * Interval for providers whose list cannot be read, or is not complete. Default one minute. Servers of local types
   * are started and stopped by their users, so their interval is two seconds at most.
   */
  readonly recheckIntervalMs?: number;
  /** Default 10 seconds. */
  readonly listTimeoutMs?: number;
  /** A request for an unknown model reads its provider's list again, at most once in this time. Default 5 seconds. */
  readonly minRefreshGapMs?: number;
  /** How long such a request waits for the list. Default 2 seconds. */
  readonly requestWaitMs?: number;
}

interface ResolvedModel {
  readonly provider: Provider;
  /** The provider's own id. */
  readonly model: string;
  /** Undefined for an unlisted model that its provider may have. */
  readonly listed?: ListedModel;
}

export interface Registry {
  /** The current providers, in order. */
  readonly providers: readonly Provider[];
  /** Resolves once the list of every initial provider has been read or has failed for the first time. */
  readonly ready: Promise<void>;
  /**
   * Replaces the providers by these, in this order. A provider that is already registered keeps its list; the list of a
   * new one, also of a replacement with the same name, is read.
   * @param known as in the options, for new providers
   */
  set(providers: readonly RegisteredProvider[], known?: RegistryOptions['known']): void;
  /**
   * Resolves a selector without a call: `<instance>/<model>`, else `<type>/<model>`, else a bare id, which may contain
   * slashes itself. A model that its provider's list lacks resolves only while that list is unknown or not complete.
   * @param hint a provider's name or type that the model must be served by
   */
  resolve(selector: string, hint?: string): ResolvedModel | undefined;
  /** The same; when nothing is found, the lists of the possible providers are read again first. */
  resolveOrRefresh(selector: string, hint?: string): Promise<ResolvedModel | undefined>;
  /** The listed model of a selector. */
  find(selector: string): ListedModel | undefined;
  /** Every known model, also of a provider that is unavailable now. The same array until a list changes. */
  list(): readonly ListedModel[];
  providerByNameOrType(nameOrType: string): Provider | undefined;
  /** Whether a provider of that name or type exists. */
  knows(nameOrType: string): boolean;
  status(): readonly ProviderStatus[];
  /** Reads every provider's list now. */
  refresh(): Promise<void>;
  /** Stops reading lists; the providers stay open. */
  close(): void;
}

const LOCAL_RECHECK_MS = 2_000;

/** Starts to read the lists at once, without waiting for them. */
export function createRegistry(options: RegistryOptions): Registry {
  const requestWaitMs = options.requestWaitMs ?? 2_000;
  let index = indexModels([]);
  let closed = false;
  const begin = ({ provider, config }: RegisteredProvider, known: RegistryOptions['known']) =>
    new ProviderListing(provider, config, {
      known: known?.get(provider.name),
      refreshIntervalMs: options.refreshIntervalMs ?? 3_600_000,
      recheckIntervalMs: Math.min(
        options.recheckIntervalMs ?? 60_000,
        providerType(provider.type)?.isLocal === true ? LOCAL_RECHECK_MS : Number.POSITIVE_INFINITY,
      ),
      listTimeoutMs: options.listTimeoutMs ?? 10_000,
      minRefreshGapMs: options.minRefreshGapMs ?? 5_000,
      clock: options.clock ?? Date.now,
      onListed: options.onListed ?? ignore,
      onUnavailable: options.onUnavailable ?? ignore,
      onAvailable: options.onAvailable ?? ignore,
      onChange: reindex,
    });
  let listings = options.providers.map((one) => begin(one, options.known));
  let inForce = listings.map(({ provider }) => provider);
  function reindex(): void {
    index = indexModels(listings);
  }
  reindex();

  /** The instances of a name: the one with that name, else all of that type. */
  const meant = (nameOrType: string): readonly ProviderListing[] => {
    const named = listings.filter(({ provider }) => provider.name === nameOrType);
    return named.length > 0 ? named : listings.filter(({ provider }) => provider.type === nameOrType);
  };

  /** Splits a selector into its provider and its model. */
  const split = (selector: string): { candidates: readonly ProviderListing[]; model: string } | undefined => {
    const slash = selector.indexOf('/');
    if (slash <= 0 || slash === selector.length - 1) return undefined;
    const candidates = meant(selector.slice(0, slash));
    return candidates.length === 0 ? undefined : { candidates, model: selector.slice(slash + 1) };
  };

  const hinted = (selector: string, hint: string): { candidates: readonly ProviderListing[]; models: string[] } => {
    const candidates = meant(hint);
    const own = split(selector);
    const repeated = own?.candidates.some((listing) => candidates.includes(listing)) === true ? [own.model] : [];
    return { candidates, models: [selector, ...repeated] };
  };

  const resolve = (selector: string, hint?: string): ResolvedModel | undefined => {
    if (hint === undefined) {
      const known = index.bySelector.get(selector);
      if (known !== undefined) return known;
      const parts = split(selector);
      return parts && unlisted(parts.candidates, parts.model);
    }
    const { candidates, models } = hinted(selector, hint);
    for (const model of models) {
      for (const { provider } of candidates) {
        const known: IndexedModel | undefined = index.bySelector.get(`${provider.name}/${model}`);
        if (known?.provider === provider) return known;
      }
    }
    return unlisted(candidates, models.at(-1) ?? selector);
  };

  const candidateListings = (selector: string, hint: string | undefined): readonly ProviderListing[] => {
    if (hint !== undefined) return meant(hint);
    // A bare id may belong to any provider; only lists that are not complete yet are worth a read.
    return split(selector)?.candidates ?? listings.filter((listing) => !listing.complete);
  };

  const ready = Promise.all(listings.map((listing) => listing.refresh())).then(() => {});

  return {
    get providers() {
      return inForce;
    },
    ready,
    set(providers, known) {
      if (closed) return;
      const before = new Map(listings.map((listing) => [listing.provider, listing]));
      const configuredProviders = new Set(providers.map(({ provider }) => provider));
      for (const listing of listings) if (!configuredProviders.has(listing.provider)) listing.close();
      listings = providers.map((one) => before.get(one.provider) ?? begin(one, known));
      inForce = listings.map(({ provider }) => provider);
      reindex();
      for (const listing of listings) if (!before.has(listing.provider)) void listing.refresh();
    },
    resolve,
    async resolveOrRefresh(selector, hint) {
      const known = resolve(selector, hint);
      if (known !== undefined) return known;
      const refreshes = candidateListings(selector, hint).map((listing) => listing.refreshForRequest());
      await atMost(requestWaitMs, Promise.all(refreshes));
      return resolve(selector, hint);
    },
    find: (selector) => index.bySelector.get(selector)?.listed,
    list: () => index.list,
    providerByNameOrType: (nameOrType) => meant(nameOrType)[0]?.provider,
    knows: (nameOrType) => meant(nameOrType).length > 0,
    status: () => listings.map(({ status }) => status),
    refresh: async () => {
      await Promise.all(listings.map((listing) => listing.refresh()));
    },
    close() {
      closed = true;
      for (const listing of listings) listing.close();
    },
  };
}

/** The first provider that may serve a model that no list contains. */
function unlisted(candidates: readonly ProviderListing[], model: string): ResolvedModel | undefined {
  const open = candidates.find(
    ({ provider, complete }) => !complete || providerType(provider.type)?.unlistedModels === true,
  );
  return open && { provider: open.provider, model };
}

function ignore(): void {}

async function atMost(ms: number, done: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([done, late]);
  clearTimeout(timer);
}

/** A model as in `GET /v1/models` and on the dashboard. */
interface ListedModel {
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

interface IndexedModel {
  readonly provider: Provider;
  readonly model: string;
  readonly listed: ListedModel;
}

interface ModelIndex {
  /** In the order of the providers, then of their lists. */
  readonly list: readonly ListedModel[];
  /** By every selector: instance and model, type and model, bare id. An ambiguous one belongs to the first. */
  readonly bySelector: ReadonlyMap<string, IndexedModel>;
}

interface Inventory {
  readonly provider: Provider;
  readonly models: readonly ProviderModel[];
}

function indexModels(inventories: readonly Inventory[]): ModelIndex {
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

/** The category of a model. The dashboard groups models by it; it has no other effect. */
type ModelCategory = 'text_generation' | 'embedding' | 'reranking' | 'image' | 'audio' | 'video' | 'utility';

const embeddingFamilies = new Set(['bge', 'e5', 'gte', 'minilm']);

/** Declared modes decide; without them, the id. Undefined: unclassified. */
export function modelCategoryOf(id: string, metadata?: ModelMetadata): ModelCategory | undefined {
  for (const mode of metadata?.modes ?? []) {
    const category = categoryOfMode(mode);
    if (category !== undefined) return category;
  }
  return categoryOfId(id);
}

/** Only the last path segment counts, since the namespace of a model does not describe it. */
export function categoryOfId(id: string): ModelCategory | undefined {
  const name = id.slice(id.lastIndexOf('/') + 1).toLowerCase();
  if (name.includes('rerank')) return 'reranking';
  if (name.includes('embed')) return 'embedding';
  return name.split(/[-_.:@ ]/).some((token) => embeddingFamilies.has(token)) ? 'embedding' : undefined;
}

export function categoryOfMode(mode: string): ModelCategory | undefined {
  switch (mode) {
    case 'chat':
    case 'completion':
    case 'responses':
      return 'text_generation';
    case 'embedding':
      return 'embedding';
    case 'rerank':
      return 'reranking';
    case 'moderation':
    case 'ocr':
    case 'search':
      return 'utility';
    case 'video_generation':
      return 'video';
    default:
      if (mode.startsWith('image_')) return 'image';
      return mode.startsWith('audio_') ? 'audio' : undefined;
  }
}
