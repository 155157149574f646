/** The gateway's configuration as plain values. Only `main.ts` and the `config` command read it. */
import { join, resolve } from 'node:path';
import { type BudgetConfig, budgetConfig, type RateLimitConfig, rateLimitConfig } from './limits-schema.ts';
import type { ProviderTimeouts } from './provider-timeouts.ts';
import { type ResilienceConfig, resilienceOf } from './resilience.ts';
import type { ProviderConfig } from './resolve-providers.ts';
import type { FileSettings } from './schema.ts';

export interface AnalyticsConfig {
  readonly enabled: boolean;
  readonly httpPort: number;
  readonly analystPassword: string | undefined;
  /** The sandbox of its process. `auto`: where the system has one. */
  readonly sandbox: 'auto' | 'required' | 'off';
  /** Without a URL: the embedded ClickHouse. */
  readonly clickhouse: {
    readonly url: string | undefined;
    readonly user: string;
    readonly password: string | undefined;
    readonly database: string;
    /** Of a server: the user that runs analysts' SQL. Not the user that writes. */
    readonly analyst: { readonly user: string; readonly password: string } | undefined;
  };
  /** Days; 0 is without limit. */
  readonly retention: { readonly audit: number; readonly usage: number };
}

/** Times ending in `Ms` are milliseconds, those ending in `Seconds` seconds. */
export interface Config {
  readonly server: {
    readonly host: string;
    readonly port: number;
    /** Further host names under which clients reach a gateway without keys. */
    readonly allowedHosts: readonly string[];
    /** Of web pages that may use the gateway; `*`: all. */
    readonly corsOrigins: readonly string[];
    /** Bytes, by the kind of body that a route accepts. */
    readonly bodyLimits: {
      readonly model: number;
      readonly audio: number;
      readonly image: number;
      readonly file: number;
      readonly other: number;
    };
    readonly maxHeaderBytes: number;
    /** How long a client may take to send its head, and its whole request. */
    readonly requestTimeouts: { readonly headersMs: number; readonly requestMs: number };
    readonly drainSeconds: number;
    /** Model requests at the same time. */
    readonly maxConcurrentRequests: number;
    /** Total bytes of large request bodies in memory at the same time. */
    readonly maxBodyMemoryBytes: number;
  };
  /** Absolute. */
  readonly dataDir: string;
  readonly masterKey: string | undefined;
  readonly unsafeOpen: boolean;
  readonly userPathHeader: string;
  readonly userPathHeaderEnabled: boolean;
  readonly log: { readonly url: string; readonly durability: 'standard' | 'strict' | 'relaxed' };
  readonly http: {
    /** How long a streaming client may read nothing. */
    readonly stallTimeoutMs: number;
  };
  readonly retry: ResilienceConfig['retry'];
  readonly circuitBreaker: ResilienceConfig['circuitBreaker'];
  readonly registry: {
    readonly refreshSeconds: number;
    readonly recheckSeconds: number;
    readonly modelsMode: 'fallback' | 'allowlist' | 'merge';
    /** Whether providers created at run time may use loopback, link-local and cloud metadata addresses. */
    readonly allowLocalProviders: boolean;
  };
  readonly passthrough: {
    readonly enabled: boolean;
    readonly v1Alias: boolean;
    /** The provider types with passthrough. Undefined: the types that declare it. */
    readonly types: readonly string[] | undefined;
    /** Further routes that do not touch objects stored at a provider: `METHOD /path`. */
    readonly statelessRoutes: readonly string[] | undefined;
  };
  readonly liveLogs: { readonly enabled: boolean; readonly heartbeatSeconds: number; readonly replayLimit: number };
  readonly metrics: {
    readonly enabled: boolean;
    readonly endpoint: string;
    readonly isPublic: boolean;
    readonly key: string | undefined;
  };
  readonly analytics: AnalyticsConfig;
  readonly usageEnabled: boolean;
  /** Off too when usage is not counted. */
  readonly budgets: BudgetConfig;
  readonly rateLimits: RateLimitConfig;
  readonly enforceUsage: boolean;
  readonly pricingRecalculationEnabled: boolean;
  readonly logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  readonly logFormat: 'auto' | 'text' | 'json';
  readonly logging: {
    readonly enabled: boolean;
    readonly capture: 'full' | 'metadata';
    /** Refused requests of one key that are recorded one by one in a minute. */
    readonly refusalsPerMinute: number;
    /** Whether the bytes of audio and of images are kept too. */
    readonly keeps: { readonly audio: boolean; readonly image: boolean };
  };
  /** The keys that encrypt the secrets of providers created at run time; both undefined: a key in `dataDir`. */
  readonly credentials: { readonly key: string | undefined; readonly keyFile: string | undefined };
  readonly tagging: readonly {
    /** Lower case. */
    readonly header: string;
    readonly prefix: string;
    readonly delimiter: string;
    readonly doNotPass: boolean;
  }[];
  readonly session: {
    readonly enabled: boolean;
    readonly autoDetect: boolean;
    readonly builtinRules: boolean;
    readonly headers: readonly { readonly header: string; readonly transform: 'session-uuid' | undefined }[];
  };
  readonly admin: { readonly endpointsEnabled: boolean; readonly uiEnabled: boolean };
  /** Policies of user paths; paths and selectors are not normalised. */
  readonly users: readonly {
    readonly path: string;
    readonly allowedModels: readonly string[];
    readonly description: string | undefined;
  }[];
  readonly models: { readonly enabledByDefault: boolean; readonly listOnlyVirtual: boolean };
  readonly failover: {
    readonly enabled: boolean;
    /** 0: all there are. */
    readonly maxModels: number;
    /** Ascending. */
    readonly statuses: readonly number[];
    /** Undefined: the built-in ones. */
    readonly phrases: readonly string[] | undefined;
  };
  /** Targets, selectors and paths are not normalised. */
  readonly virtualModels: readonly DeclaredVirtualModel[];
  readonly pluginsEnabled: boolean;
  readonly guardrailsEnabled: boolean;
  readonly providers: readonly ProviderConfig[];
  /** By type, of providers created at run time. */
  readonly timeoutsByType: Readonly<Record<string, ProviderTimeouts>>;
  /** Messages for the start of the gateway: providers left out, variables ignored. */
  readonly notices: readonly string[];
}

export interface DeclaredVirtualModel {
  readonly source: string;
  readonly targetModel: string | undefined;
  readonly targets:
    | readonly {
        readonly provider?: string | undefined;
        readonly model: string;
        readonly weight?: number | undefined;
      }[]
    | undefined;
  readonly strategy: string | undefined;
  readonly sessionAffinity: boolean | undefined;
  readonly failover:
    | boolean
    | {
        readonly enabled?: boolean | undefined;
        readonly statuses?: readonly number[] | undefined;
        readonly phrases?: readonly string[] | undefined;
      }
    | undefined;
  readonly userPaths: readonly string[] | undefined;
  readonly description: string | undefined;
  readonly enabled: boolean | undefined;
}

/** Gives every setting its name in the program. Relative folders are resolved against `cwd`. */
export function configOf(
  settings: FileSettings,
  providers: readonly ProviderConfig[],
  timeoutsByType: Config['timeoutsByType'],
  notices: readonly string[],
  cwd: string,
): Config {
  const { server, registry, passthrough, live_logs, logging, admin } = settings;
  const dataDir = resolve(cwd, settings.data_dir);
  return {
    server: {
      host: server.host,
      port: server.port,
      allowedHosts: server.allowed_hosts ?? [],
      corsOrigins: server.cors_origins,
      bodyLimits: bodyLimitsOf(server),
      maxHeaderBytes: server.max_header_size,
      requestTimeouts: { headersMs: server.headers_timeout, requestMs: server.request_timeout },
      drainSeconds: server.drain_timeout / 1000,
      maxConcurrentRequests: server.max_concurrent_requests,
      maxBodyMemoryBytes: server.max_body_memory,
    },
    dataDir,
    masterKey: server.master_key,
    unsafeOpen: server.unsafe_open,
    userPathHeader: server.user_path_header,
    userPathHeaderEnabled: server.user_path_header_enabled,
    log: { url: settings.log.url ?? `file:${join(dataDir, 'log')}`, durability: settings.log.durability },
    http: {
      stallTimeoutMs: server.stream_stall_timeout,
    },
    ...resilienceOf(settings.resilience),
    registry: {
      refreshSeconds: registry.refresh_interval / 1000,
      recheckSeconds: registry.recheck_interval / 1000,
      modelsMode: registry.models_mode,
      allowLocalProviders: registry.allow_private_providers,
    },
    passthrough: {
      enabled: passthrough.enabled,
      v1Alias: passthrough.v1_alias,
      types: passthrough.types,
      statelessRoutes: passthrough.stateless_routes,
    },
    liveLogs: {
      enabled: live_logs.enabled,
      heartbeatSeconds: live_logs.heartbeat_interval / 1000,
      replayLimit: live_logs.replay_limit,
    },
    metrics: {
      enabled: settings.metrics.enabled,
      endpoint: settings.metrics.endpoint,
      isPublic: settings.metrics.public,
      key: settings.metrics.key,
    },
    analytics: analyticsOf(settings),
    usageEnabled: settings.usage.enabled,
    budgets: budgetConfig({ ...settings.budgets, enabled: settings.budgets.enabled && settings.usage.enabled }),
    rateLimits: rateLimitConfig(settings.rate_limits),
    enforceUsage: settings.usage.enforce_returning_usage_data,
    pricingRecalculationEnabled: settings.usage.pricing_recalculation_enabled,
    logLevel: logging.level,
    logFormat: logging.format,
    logging: {
      enabled: logging.enabled,
      capture: logging.bodies ? 'full' : 'metadata',
      refusalsPerMinute: logging.refusals_per_minute,
      keeps: { audio: logging.audio_bodies, image: logging.image_bodies },
    },
    credentials: {
      key: settings.credentials.key,
      keyFile: settings.credentials.key_file && resolve(cwd, settings.credentials.key_file),
    },
    tagging: (settings.tagging.headers ?? []).map(({ header, prefix = '', delimiter = ',', do_not_pass = false }) => {
      return { header: header.toLowerCase(), prefix, delimiter, doNotPass: do_not_pass };
    }),
    session: {
      enabled: settings.session.keeping_enabled,
      autoDetect: settings.session.auto_detect,
      builtinRules: settings.session.builtin_rules,
      headers: (settings.session.headers ?? []).map(({ header, transform }) => {
        return { header: header.toLowerCase(), transform };
      }),
    },
    admin: {
      endpointsEnabled: admin.endpoints_enabled,
      uiEnabled: admin.ui_enabled && admin.endpoints_enabled,
    },
    users: settings.users.map(({ path, allowed_models: allowedModels, description }) => ({
      path,
      allowedModels,
      description,
    })),
    models: {
      enabledByDefault: settings.models.enabled_by_default,
      listOnlyVirtual: settings.models.list_only_virtual,
    },
    failover: {
      enabled: settings.failover.enabled,
      maxModels: settings.failover.max_attempts,
      statuses: settings.failover.retry_on_statuses,
      phrases: settings.failover.retry_on_errors,
    },
    virtualModels: settings.virtual_models.map((row) => ({
      source: row.source,
      targetModel: row.target_model,
      targets: row.targets,
      strategy: row.strategy,
      sessionAffinity: row.session_affinity,
      failover: row.failover,
      userPaths: row.user_paths,
      description: row.description,
      enabled: row.enabled,
    })),
    pluginsEnabled: settings.plugins.enabled,
    guardrailsEnabled: settings.guardrails.enabled,
    providers,
    timeoutsByType,
    notices,
  };
}

const MIB = 1024 * 1024;

/** The limits of vendors: recordings of 25 MB, images and messages of 32 to 50 MB, files of 512 MB. */
function bodyLimitsOf(server: FileSettings['server']): Config['server']['bodyLimits'] {
  const { body_size_limit: all } = server;
  return {
    model: server.model_body_size_limit ?? all ?? 50 * MIB,
    audio: server.audio_body_size_limit ?? all ?? 26 * MIB,
    image: server.image_body_size_limit ?? all ?? 60 * MIB,
    file: server.file_body_size_limit ?? all ?? 513 * MIB,
    other: all ?? 10 * MIB,
  };
}

function analyticsOf({ analytics, logging, usage }: FileSettings): AnalyticsConfig {
  const { url, user, password, database, analyst_user, analyst_password } = analytics.clickhouse;
  const hasAnalyst = analyst_user !== undefined && analyst_password !== undefined;
  return {
    enabled: analytics.enabled,
    httpPort: analytics.http_port,
    analystPassword: analytics.analyst_password,
    sandbox: analytics.sandbox,
    clickhouse: {
      url,
      user,
      password,
      database,
      analyst: hasAnalyst ? { user: analyst_user, password: analyst_password } : undefined,
    },
    retention: { audit: logging.retention_days, usage: usage.retention_days },
  };
}
