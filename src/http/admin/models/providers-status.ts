/** `GET /admin/providers/status`: the state of each provider and its source. It contains no keys. */
import { z } from 'zod';
import { globalAdmin, jsonAnswer, type Routes } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';

/** A provider that is in force or should be. */
export interface ProviderFacts {
  readonly name: string;
  readonly type: string;
  /** Undefined for one that could not be set up. */
  readonly baseUrl: string | undefined;
  readonly apiVersion: string | undefined;
  readonly configuredModels: readonly string[];
  readonly resilience: ResilienceFacts | undefined;
  /** Undefined for one that is not registered. */
  readonly listing: ListingFacts | undefined;
  readonly circuit: 'closed' | 'open' | 'half_open' | undefined;
  /** When its list was read before the last start, in milliseconds since the epoch. */
  readonly rememberedListedAt: number | undefined;
  /** Why it is not in force. */
  readonly problem: string | undefined;
}

export interface ListingFacts {
  readonly state: 'unknown' | 'available' | 'unavailable';
  readonly models: number;
  readonly remembered: boolean;
  readonly allowlist: boolean;
  readonly lastAttemptAt: number | undefined;
  readonly lastListedAt: number | undefined;
  readonly lastError: string | undefined;
}

interface ResilienceFacts {
  readonly retry: {
    readonly maxRetries: number;
    readonly initialBackoffMs: number;
    readonly maxBackoffMs: number;
    readonly factor: number;
    readonly jitter: number;
  };
  readonly circuitBreaker: {
    readonly failureThreshold: number;
    readonly successThreshold: number;
    readonly openMs: number;
  };
}

const health = z.enum(['healthy', 'degraded', 'unhealthy']);
const time = z.iso.datetime();
const duration = z.string().describe('Such as `500ms` or `1m30s`');

const verdict = {
  status: health,
  status_label: z.enum(['Healthy', 'Degraded', 'Unhealthy', 'Starting', 'Configured', 'Unknown']),
  status_reason: z.string(),
};

const resilienceSchema = z.object({
  retry: z.object({
    max_retries: z.int(),
    initial_backoff: duration,
    max_backoff: duration,
    backoff_factor: z.number(),
    jitter_factor: z.number(),
  }),
  circuit_breaker: z.object({ failure_threshold: z.int(), success_threshold: z.int(), timeout: duration }),
});

const runtime = z.object({
  name: z.string(),
  type: z.string(),
  registered: z.boolean(),
  registry_initialized: z.boolean(),
  discovered_model_count: z.int(),
  using_cached_models: z.boolean(),
  last_model_fetch_at: time.optional(),
  last_model_fetch_success_at: time.optional(),
  last_model_fetch_error: z.string().optional(),
  last_availability_check_at: time.optional(),
  last_availability_ok_at: time.optional(),
  last_availability_error: z.string().optional(),
  inventory_stale: z.boolean(),
  circuit_breaker: z.enum(['closed', 'open', 'half_open']).optional(),
});

const providerStatus = z.object({
  name: z.string(),
  type: z.string(),
  ...verdict,
  last_error: z.string().optional(),
  config: z.object({
    name: z.string(),
    type: z.string(),
    base_url: z.string().optional(),
    api_version: z.string().optional(),
    models: z.array(z.string()).optional(),
    session_sticky_keys: z.boolean(),
    resilience: resilienceSchema.optional(),
  }),
  runtime,
});

const status = z.object({
  summary: z.object({
    total: z.int(),
    healthy: z.int(),
    degraded: z.int(),
    unhealthy: z.int(),
    overall_status: health,
  }),
  providers: z.array(providerStatus),
});

type Health = z.infer<typeof health>;
type Verdict = z.infer<z.ZodObject<typeof verdict>>;

const getStatus = globalAdmin('getProvidersStatus', 'Get the state of every provider', {
  exposeHeadRoute: false,
  response: { 200: jsonAnswer('The providers by name, and a summary', status) },
});

export function registerProvidersStatus(admin: Routes, providers: () => readonly ProviderFacts[]): void {
  admin.get('/providers/status', getStatus, () => providersStatus(providers()));
}

export function providersStatus(facts: readonly ProviderFacts[]) {
  const providers = [...facts].sort((a, b) => (a.name < b.name ? -1 : 1)).map(statusOf);
  const count = (health: Health) => providers.filter(({ status }) => status === health).length;
  const summary = {
    total: providers.length,
    healthy: count('healthy'),
    degraded: count('degraded'),
    unhealthy: count('unhealthy'),
  };
  return { summary: { ...summary, overall_status: overall(summary) }, providers };
}

function overall({ total, healthy, unhealthy }: { total: number; healthy: number; unhealthy: number }): Health {
  if (total > 0 && healthy === total) return 'healthy';
  return total > 0 && unhealthy === total ? 'unhealthy' : 'degraded';
}

function statusOf(facts: ProviderFacts) {
  const { name, type, baseUrl, apiVersion, configuredModels, resilience, listing, circuit, problem } = facts;
  const lastError = problem ?? listing?.lastError;
  const listedAt = listing?.lastListedAt ?? facts.rememberedListedAt;
  return {
    name,
    type,
    ...verdictOn(facts),
    ...(lastError === undefined ? {} : { last_error: lastError }),
    config: {
      name,
      type,
      ...(baseUrl === undefined ? {} : { base_url: baseUrl }),
      ...(apiVersion === undefined ? {} : { api_version: apiVersion }),
      ...(configuredModels.length === 0 ? {} : { models: configuredModels }),
      session_sticky_keys: false,
      ...(resilience === undefined ? {} : { resilience: resilienceToWire(resilience) }),
    },
    runtime: {
      name,
      type,
      registered: listing !== undefined,
      registry_initialized: listing !== undefined && (listing.allowlist || listing.lastAttemptAt !== undefined),
      discovered_model_count: listing?.models ?? 0,
      using_cached_models: listing?.remembered ?? false,
      ...at('last_model_fetch_at', listing?.lastAttemptAt),
      ...at('last_model_fetch_success_at', listedAt),
      ...(listing?.lastError === undefined ? {} : { last_model_fetch_error: listing.lastError }),
      ...at('last_availability_check_at', listing?.lastAttemptAt),
      ...at('last_availability_ok_at', listing?.lastListedAt),
      ...(listing?.lastError === undefined ? {} : { last_availability_error: listing.lastError }),
      inventory_stale: listing !== undefined && listing.models > 0 && listing.lastError !== undefined,
      ...(circuit === undefined ? {} : { circuit_breaker: circuit }),
    },
  };
}

/** The state of a provider: its model list decides first, the outcomes of its calls second. */
function verdictOn({ listing, circuit, problem, configuredModels }: ProviderFacts): Verdict {
  if (listing === undefined) return unhealthy(problem ?? 'It is not registered.');
  const { models, state, lastError, remembered, allowlist } = listing;
  if (lastError !== undefined) {
    return models > 0
      ? degraded('Degraded', `Its model list could not be read; the last known list is used: ${lastError}`)
      : unhealthy(`Its model list could not be read: ${lastError}`);
  }
  if (circuit === 'open') return degraded('Degraded', 'After repeated failures it is not called for some time.');
  if (models > 0 && (state === 'available' || allowlist)) {
    return { status: 'healthy', status_label: 'Healthy', status_reason: 'Its models are known.' };
  }
  if (remembered) return degraded('Starting', 'The models of an earlier run are used until it answers.');
  if (state === 'available') return degraded('Unknown', 'It answered, but lists no model.');
  return configuredModels.length > 0 || allowlist
    ? degraded('Configured', 'It is configured, but has not answered yet.')
    : degraded('Starting', 'It has not answered yet.');
}

function degraded(status_label: Verdict['status_label'], status_reason: string): Verdict {
  return { status: 'degraded', status_label, status_reason };
}

function unhealthy(status_reason: string): Verdict {
  return { status: 'unhealthy', status_label: 'Unhealthy', status_reason };
}

function at(name: string, ms: number | undefined): Record<string, string> {
  return ms === undefined ? {} : { [name]: timeText(ms) };
}

function resilienceToWire({ retry, circuitBreaker }: ResilienceFacts) {
  return {
    retry: {
      max_retries: retry.maxRetries,
      initial_backoff: durationText(retry.initialBackoffMs),
      max_backoff: durationText(retry.maxBackoffMs),
      backoff_factor: retry.factor,
      jitter_factor: retry.jitter,
    },
    circuit_breaker: {
      failure_threshold: circuitBreaker.failureThreshold,
      success_threshold: circuitBreaker.successThreshold,
      timeout: durationText(circuitBreaker.openMs),
    },
  };
}

/** A duration in Go's format, which clients of this answer expect: `500ms`, `30s`, `1m30s`, `1h0m0s`. */
export function durationText(ms: number): string {
  if (ms < 1000) return ms === 0 ? '0s' : `${ms}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = `${(ms % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
