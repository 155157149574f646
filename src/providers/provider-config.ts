/** Configuration of one provider instance. The configuration loader creates it; providers never read files. */
import type { ModelMetadata } from './provider.ts';
import type { TimeLimit } from './time-limit.ts';

export interface ConfiguredModel {
  readonly id: string;
  /** Overrides what the provider reports, member by member. */
  readonly metadata?: ModelMetadata;
}

/**
 * How configured models are used. `fallback`: when the provider's own list fails or is empty. `allowlist`: they are
 * the list, and the provider's list is not read. `merge`: they are added to the provider's list.
 */
export type ModelsMode = 'fallback' | 'allowlist' | 'merge';

export interface ProviderTimeouts {
  /** To open a connection. Default 10,000. */
  readonly connectMs?: number;
  /** From the call to the answer's headers, including the wait for a connection. Default 600 s. */
  readonly headers?: TimeLimit;
  /** For an answer that is not a stream, from its headers to its end. Default 600 s. */
  readonly answer?: TimeLimit;
  /** Between two pieces of a stream. Default 300 s. */
  readonly idle?: TimeLimit;
}

export interface ProviderConfig {
  /** The instance, for example `llamacpp-gpu`. */
  readonly name: string;
  /** A row of the type table, for example `llamacpp`. */
  readonly type: string;
  readonly baseUrl: string;
  /** Used in turn, one per call; empty for a keyless provider. */
  readonly apiKeys: readonly string[];
  readonly models: readonly ConfiguredModel[];
  readonly modelsMode: ModelsMode;
  /** The type's extra settings by option name, for example `apiVersion`. */
  readonly options: Readonly<Record<string, string>>;
  readonly timeouts?: ProviderTimeouts;
  /** Calls beyond this many at once wait for a free connection. Default 1,024. */
  readonly connections?: number;
  /** HTTP proxy for its connections, with the proxy's credentials. */
  readonly proxyUrl?: string | undefined;
  readonly source: 'environment' | 'file' | 'stored';
  /** Whether loopback, link-local and cloud metadata addresses are allowed. Default: unless `source` is `stored`. */
  readonly localAddresses?: boolean;
  /** Asked directly before the first byte of each call for a client is sent; false: it fails as `unreachable`. */
  readonly mayCall?: () => boolean;
}
