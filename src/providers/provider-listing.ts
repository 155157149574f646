/** One provider's model list over time: read at the start, refreshed, kept across failures, combined with configured models. */

import { isObject } from '../json/is-object.ts';
import type { ConfiguredModel, ModelMetadata, ModelsMode, Provider, ProviderModel } from './provider.ts';

interface ProviderListingOptions {
  /** The last good list before this start; an empty one has no effect. */
  readonly known?: readonly ProviderModel[];
  readonly refreshIntervalMs: number;
  /** Interval while the list cannot be read, or is not complete. */
  readonly recheckIntervalMs: number;
  readonly listTimeoutMs: number;
  /** At most one request-time refresh in this time. */
  readonly minRefreshGapMs: number;
  clock(): number;
  /** The provider's list differs from the known one. */
  onListed(provider: string, models: readonly ProviderModel[]): void;
  onUnavailable(provider: string, message: string): void;
  onAvailable(provider: string): void;
  /** `models` or `listed` has changed. */
  onChange(): void;
}

type ProviderState = 'unknown' | 'available' | 'unavailable';

export interface ProviderStatus {
  readonly name: string;
  readonly type: string;
  /** `unknown` until the first attempt, and always when its models are an allowlist. */
  readonly state: ProviderState;
  readonly models: number;
  /** Whether its models were listed before this start: it has not answered since. */
  readonly remembered: boolean;
  /** Whether its models are configured, and its list is never read. */
  readonly allowlist: boolean;
  /** Milliseconds since the epoch; undefined before the first attempt. */
  readonly lastAttemptAt: number | undefined;
  /** Milliseconds since the epoch. */
  readonly lastListedAt: number | undefined;
  /** Error of the newest attempt; undefined when it succeeded. */
  readonly lastError: string | undefined;
}

export class ProviderListing {
  readonly provider: Provider;
  readonly #config: ModelsConfig;
  readonly #options: ProviderListingOptions;
  readonly #closing = new AbortController();
  #listed: readonly ProviderModel[] | undefined;
  #models: readonly ProviderModel[];
  #state: ProviderState = 'unknown';
  #lastListedAt: number | undefined;
  #lastAttemptAt = Number.NEGATIVE_INFINITY;
  #lastError: string | undefined;
  #running: Promise<void> | undefined;
  #next: NodeJS.Timeout | undefined;

  constructor(provider: Provider, config: ModelsConfig, options: ProviderListingOptions) {
    this.provider = provider;
    this.#config = config;
    this.#options = options;
    this.#listed = options.known?.length === 0 ? undefined : options.known;
    this.#models = knownModels(config, this.#listed, provider.type);
  }

  /** Including configured additions and overrides. */
  get models(): readonly ProviderModel[] {
    return this.#models;
  }

  /** Whether `models` is complete. While no list has been read, a model that is not in it may exist. */
  get complete(): boolean {
    return this.#isAllowlist || this.#listed !== undefined;
  }

  get status(): ProviderStatus {
    return {
      name: this.provider.name,
      type: this.provider.type,
      state: this.#state,
      models: this.#models.length,
      remembered: this.#lastListedAt === undefined && this.#listed !== undefined,
      allowlist: this.#isAllowlist,
      lastAttemptAt: Number.isFinite(this.#lastAttemptAt) ? this.#lastAttemptAt : undefined,
      lastListedAt: this.#lastListedAt,
      lastError: this.#lastError,
    };
  }

  /** Reads the provider's list now, or joins the read under way. Never rejects. */
  refresh(): Promise<void> {
    if (this.#isAllowlist || this.#closing.signal.aborted) return Promise.resolve();
    this.#running ??= this.#ask().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** A refresh for one request: does nothing when the list is recent. */
  refreshForRequest(): Promise<void> {
    const age = this.#options.clock() - this.#lastAttemptAt;
    return this.#running !== undefined || age >= this.#options.minRefreshGapMs ? this.refresh() : Promise.resolve();
  }

  close(): void {
    clearTimeout(this.#next);
    this.#closing.abort();
  }

  get #isAllowlist(): boolean {
    return this.#config.modelsMode === 'allowlist';
  }

  async #ask(): Promise<void> {
    clearTimeout(this.#next);
    this.#lastAttemptAt = this.#options.clock();
    let again = this.#options.refreshIntervalMs;
    try {
      const models = await this.#list();
      if (models.some(({ isIncomplete }) => isIncomplete)) again = this.#options.recheckIntervalMs;
      this.#succeeded(this.#completed(models));
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error));
      again = this.#options.recheckIntervalMs;
    }
    if (this.#closing.signal.aborted) return;
    this.#next = setTimeout(() => this.refresh(), again);
    this.#next.unref();
  }

  /** A model that cannot be described now keeps its earlier description. */
  #completed(models: readonly ProviderModel[]): ProviderModel[] {
    return models.map(({ isIncomplete, ...model }) => {
      const known = isIncomplete ? this.#listed?.find(({ id }) => id === model.id)?.metadata : undefined;
      return known === undefined ? model : { ...model, metadata: { ...model.metadata, ...known } };
    });
  }

  /** Ends within the time limit, even if the provider ignores its signal. */
  async #list(): Promise<readonly ProviderModel[]> {
    const { listTimeoutMs } = this.#options;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), listTimeoutMs);
    const signal = AbortSignal.any([late.signal, this.#closing.signal]);
    const cutOff = new Promise<never>((_resolve, reject) => {
      const stop = (): void => reject(new Error(`no model list within ${listTimeoutMs} ms`));
      signal.addEventListener('abort', stop, { once: true });
    });
    try {
      return await Promise.race([cutOff, this.provider.listModels(signal)]);
    } finally {
      clearTimeout(timer);
      cutOff.catch(() => {});
    }
  }

  #succeeded(models: readonly ProviderModel[]): void {
    if (this.#closing.signal.aborted) return;
    const recovered = this.#state === 'unavailable';
    const changed = JSON.stringify(models) !== JSON.stringify(this.#listed);
    this.#state = 'available';
    this.#lastError = undefined;
    this.#lastListedAt = this.#options.clock();
    // A server that has been unavailable, or has other models, may be a newer version.
    if (recovered || (changed && this.#listed !== undefined)) this.provider.learnResponses(undefined);
    if (recovered) this.#options.onAvailable(this.provider.name);
    if (!changed) return;
    this.#listed = models;
    this.#models = knownModels(this.#config, models, this.provider.type);
    this.#options.onListed(this.provider.name, models);
    this.#options.onChange();
  }

  #failed(message: string): void {
    if (this.#closing.signal.aborted) return;
    const hasChanged = this.#state !== 'unavailable';
    this.#state = 'unavailable';
    this.#lastError = message;
    if (hasChanged) this.#options.onUnavailable(this.provider.name, message);
  }
}

export interface ModelsConfig {
  readonly models: readonly ConfiguredModel[];
  readonly modelsMode: ModelsMode;
}

/**
 * The known models of a provider: its own list combined with the configured models, according to the configured mode.
 * @param listed undefined when it has never returned a list
 */
function knownModels(
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

/** One entry of the listing, with all of the server's members. */
export interface ListedEntry {
  readonly id: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

const MAX_ID_LENGTH = 512;
const MAX_TEXT_LENGTH = 2000;

/**
 * Accepts `{"data": […]}` or a bare array of objects or ids. Ids are trimmed, the first of several equal ones counts,
 * and entries without an id are skipped. Undefined when the body is not a listing.
 */
export function listedEntries(body: unknown, idPrefix = ''): ListedEntry[] | undefined {
  const items = isObject(body) ? body['data'] : body;
  if (!Array.isArray(items)) return undefined;
  const found = new Map<string, ListedEntry>();
  for (const item of items) {
    const entry = isObject(item) ? item : { id: item };
    const id = typeof entry['id'] === 'string' ? withoutPrefix(entry['id'].trim(), idPrefix) : '';
    if (id !== '' && id.length <= MAX_ID_LENGTH && !found.has(id)) found.set(id, { id, entry });
  }
  return [...found.values()];
}

/** @param known metadata from other sources, which wins over the entry */
export function providerModelOf(
  { id, entry }: ListedEntry,
  defaultOwner: string,
  known: ModelMetadata = {},
): ProviderModel {
  const created = entry['created'];
  const owner = entry['owned_by'];
  const metadata = { ...describe(entry), ...known };
  return {
    id,
    created: typeof created === 'number' && created > 0 && Number.isFinite(created) ? Math.trunc(created) : 0,
    ownedBy: typeof owner === 'string' && owner !== '' ? owner : defaultOwner,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

/** Members of known servers beyond OpenAI's: each has its own name for the context window. */
function describe(entry: Readonly<Record<string, unknown>>): ModelMetadata {
  const context = firstCount(entry, ['context_window', 'context_length', 'max_context_length', 'max_model_len']);
  const output = firstCount(entry, ['max_completion_tokens', 'max_output_tokens']);
  const name = text(entry['display_name']) ?? text(entry['name']);
  const description = text(entry['description']);
  return {
    ...(name === undefined ? {} : { display_name: name }),
    ...(description === undefined ? {} : { description }),
    ...(context === undefined ? {} : { context_window: context }),
    ...(output === undefined ? {} : { max_output_tokens: output }),
  };
}

function firstCount(entry: Readonly<Record<string, unknown>>, names: readonly string[]): number | undefined {
  for (const name of names) {
    const count = positiveCount(entry[name]);
    if (count !== undefined) return count;
  }
  return undefined;
}

export function positiveCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, MAX_TEXT_LENGTH) : undefined;
}

function withoutPrefix(id: string, prefix: string): string {
  return prefix !== '' && id.startsWith(prefix) ? id.slice(prefix.length) : id;
}
