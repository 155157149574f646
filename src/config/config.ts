/** The gateway's configuration as plain values. Only `main.ts` and the `config` command read it. */

import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { budgetConfig, rateLimitConfig } from './limits-schema.ts';
import { logConfig } from './log-settings.ts';
import { mcpConfig } from './mcp-schema.ts';
import { otelConfig } from './otel-schema.ts';
import { type ProviderConfig, type ProviderTimeouts, resilienceOf } from './resolve-providers.ts';
import type { FileSettings } from './schema.ts';
import { semanticCacheConfig } from './semantic-cache-schema.ts';
import { proxyConfig, tlsConfig } from './server-settings.ts';

/** Times ending in `Ms` are milliseconds, those ending in `Seconds` seconds. */
export type Config = Readonly<ReturnType<typeof configOf>>;

interface ConfigFacts {
  /** Of providers created at run time. */
  readonly timeoutsByType: Readonly<Record<string, ProviderTimeouts>>;
  /** For the start of the gateway: providers left out, variables ignored. */
  readonly notices: readonly string[];
  readonly cwd: string;
  /** The folder of chancery.yaml; `cwd` without a file. */
  readonly fileFolder: string;
}

/** Gives every setting its name in the program. Relative folders are resolved against `cwd`, plugins against the file. */
export function configOf(
  settings: FileSettings,
  providers: readonly ProviderConfig[],
  { timeoutsByType, notices, cwd, fileFolder }: ConfigFacts,
) {
  const { server, registry, passthrough, live_logs, logging, admin, http } = settings;
  const dataDir = resolve(cwd, settings.data_dir);
  return {
    server: {
      host: server.host,
      port: server.port,
      /** Processes that serve requests. 1: this one. */
      workers: server.workers,
      /** Without a slash at its end; empty: none. */
      basePath: server.base_path.replace(/\/$/, ''),
      /** Undefined: the admin API and the metrics are where all routes are. */
      adminListen: server.admin_listen,
      ...proxyConfig(server),
      tls: tlsConfig(server, cwd),
      /** Further host names under which clients reach a gateway without keys. */
      allowedHosts: server.allowed_hosts ?? [],
      /** Of web pages that may use the gateway; `*`: all. */
      corsOrigins: server.cors_origins,
      /** Bytes, by the kind of body that a route accepts. */
      bodyLimits: bodyLimitsOf(server),
      /** Of the JSON in a body. */
      bodyBounds: {
        depth: server.request_max_depth,
        entries: server.request_max_entries,
        objects: server.request_max_objects,
        values: server.request_max_values,
      },
      maxHeaderBytes: server.max_header_size,
      /** How long a client may take to send its head, and its whole request. */
      requestTimeouts: { headersMs: server.headers_timeout, requestMs: server.request_timeout },
      drainSeconds: server.drain_timeout / 1000,
      /** Model requests at the same time. */
      maxConcurrentRequests: server.max_concurrent_requests,
      websockets: {
        maxPerKey: server.websocket_max_per_key,
        idleMs: server.websocket_idle_timeout,
        maxAgeMs: server.websocket_max_age,
        pingMs: server.websocket_ping_interval,
        /** Whether providers that have WebSockets are called on them. */
        toProviders: server.websocket_to_providers,
      },
      /** Total bytes of large request bodies in memory at the same time. */
      maxBodyMemoryBytes: server.max_body_memory,
    },
    /** Absolute. */
    dataDir,
    masterKey: server.master_key,
    unsafeOpen: server.unsafe_open,
    userPathHeader: server.user_path_header,
    userPathHeaderEnabled: server.user_path_header_enabled,
    log: logConfig(settings.log, dataDir, cwd, server.workers),
    /** How long a streaming client may read nothing. */
    http: { stallTimeoutMs: server.stream_stall_timeout },
    /** By the scheme of an origin, the proxy of connections to it; what is reached without one. */
    proxies: {
      https: http.https_proxy ?? http.all_proxy,
      http: http.http_proxy ?? http.all_proxy,
      bypass: http.no_proxy,
    },
    /** The bounds of a streamed answer of a provider. */
    streamLimits: { ms: server.stream_max_duration, bytes: server.stream_max_size },
    ...resilienceOf(settings.resilience),
    registry: {
      refreshSeconds: registry.refresh_interval / 1000,
      recheckSeconds: registry.recheck_interval / 1000,
      modelsMode: registry.models_mode,
      /** Whether providers created at run time may use loopback, link-local and cloud metadata addresses. */
      allowLocalProviders: registry.allow_private_providers,
    },
    passthrough: {
      enabled: passthrough.enabled,
      v1Alias: passthrough.v1_alias,
      /** The provider types with passthrough. Undefined: the types that declare it. */
      types: passthrough.types,
      /** Further routes that do not touch objects stored at a provider: `METHOD /path`. */
      statelessRoutes: passthrough.stateless_routes,
      /** Names of further headers that are forwarded and returned, in lower case. */
      requestHeaders: passthrough.request_headers,
      answerHeaders: passthrough.response_headers,
    },
    realtime: { enabled: settings.realtime.enabled, recordsAudio: settings.realtime.record_audio },
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
    otel: otelConfig(settings.otel, cwd),
    analytics: analyticsOf(settings),
    usageEnabled: settings.usage.enabled,
    /** Off too when usage is not counted. */
    budgets: budgetConfig({ ...settings.budgets, enabled: settings.budgets.enabled && settings.usage.enabled }),
    rateLimits: rateLimitConfig(settings.rate_limits),
    enforceUsage: settings.usage.enforce_returning_usage_data,
    pricingRecalculationEnabled: settings.usage.pricing_recalculation_enabled,
    logLevel: logging.level,
    logFormat: logging.format,
    logging: {
      enabled: logging.enabled,
      capture: logging.bodies ? ('full' as const) : ('metadata' as const),
      /** Refused requests of one key that are recorded one by one in a minute. */
      refusalsPerMinute: logging.refusals_per_minute,
      /** Whether the bytes of audio and of images are kept too. */
      keeps: { audio: logging.audio_bodies, image: logging.image_bodies },
    },
    /** The keys that encrypt the secrets of providers created at run time; both undefined: a key in `dataDir`. */
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
    admin: { endpointsEnabled: admin.endpoints_enabled, uiEnabled: admin.ui_enabled && admin.endpoints_enabled },
    /** Policies of user paths; paths and selectors are not normalised. */
    users: settings.users.map(({ path, allowed_models: allowedModels, description }) => {
      return { path, allowedModels, description };
    }),
    models: {
      enabledByDefault: settings.models.enabled_by_default,
      listOnlyVirtual: settings.models.list_only_virtual,
    },
    failover: {
      enabled: settings.failover.enabled,
      /** 0: all there are. */
      maxModels: settings.failover.max_attempts,
      /** Ascending. */
      statuses: settings.failover.retry_on_statuses,
      /** Undefined: the built-in ones. */
      phrases: settings.failover.retry_on_errors,
    },
    responseCache: {
      enabled: settings.cache.response.enabled,
      ttlSeconds: settings.cache.response.ttl_seconds,
      /** The longest time that a request or a workflow may set. */
      maxTtlSeconds: settings.cache.response.max_ttl_seconds,
      maxEntries: settings.cache.response.max_entries,
      /** Of answers that are kept ready in memory. */
      maxMemoryBytes: settings.cache.response.max_memory_bytes,
      maxAnswerBytes: settings.cache.response.max_answer_bytes,
    },
    /** Targets, selectors and paths are not normalised. */
    virtualModels: settings.virtual_models.map((row) => ({
      source: row.source,
      targetModel: row.target_model,
      targets: row.targets,
      strategy: row.strategy,
      strategyPlugin: row.strategy_plugin,
      strategyConfig: row.strategy_config,
      sessionAffinity: row.session_affinity,
      failover: row.failover,
      userPaths: row.user_paths,
      description: row.description,
      enabled: row.enabled,
    })),
    /** Undefined: off. */
    semanticCache: settings.cache.response.enabled ? semanticCacheConfig(settings.cache.semantic) : undefined,
    pluginsEnabled: settings.plugins.enabled,
    plugins: pluginsOf(settings.plugins, fileFolder),
    mcp: mcpConfig(settings.mcp),
    guardrailsEnabled: settings.guardrails.enabled,
    /** Paths are not normalised, and the settings of the types are not checked. */
    guardrails: settings.guardrails.rules.map((rule) => ({
      name: rule.name,
      type: rule.type,
      description: rule.description,
      userPath: rule.user_path,
      config: rule.config ?? {},
      failMode: rule.fail_mode,
      timeoutMs: rule.timeout_ms,
      phases: rule.phases,
      step: rule.step,
    })),
    providers,
    timeoutsByType,
    notices,
  };
}

const MIB = 1024 * 1024;

/** The limits of vendors: recordings of 25 MB, images and messages of 32 to 50 MB, files of 512 MB. */
function bodyLimitsOf(server: FileSettings['server']) {
  const { body_size_limit: all } = server;
  return {
    model: server.model_body_size_limit ?? all ?? 50 * MIB,
    audio: server.audio_body_size_limit ?? all ?? 26 * MIB,
    image: server.image_body_size_limit ?? all ?? 60 * MIB,
    file: server.file_body_size_limit ?? all ?? 513 * MIB,
    other: all ?? 10 * MIB,
  };
}

/** Entries of search paths are not listed yet. */
function pluginsOf({ load, search_paths, memory_limit, timeout, max_timeout }: FileSettings['plugins'], from: string) {
  const common = { memoryBytes: memory_limit, timeoutMs: Math.min(timeout, max_timeout) };
  return {
    /** Paths and packages are resolved against this folder. */
    from,
    /** Absolute. */
    searchPaths: search_paths.map((path) => resolve(from, path)),
    ...common,
    maxTimeoutMs: max_timeout,
    entries: load.map((entry, index) => ({
      place: entry.path === undefined ? { package: entry.package ?? '' } : { path: entry.path },
      name: entry.name,
      config: entry.config ?? {},
      required: entry.required ?? false,
      memoryBytes: entry.memory_limit ?? common.memoryBytes,
      timeoutMs: Math.min(entry.timeout ?? common.timeoutMs, max_timeout),
      failMode: entry.fail_mode ?? ('closed' as const),
      setting: `plugins.load.${index} (PLUGINS)`,
    })),
  };
}

function analyticsOf({ analytics, logging, usage }: FileSettings) {
  const { url, user, password, database, analyst_user, analyst_password } = analytics.clickhouse;
  const hasAnalyst = analyst_user !== undefined && analyst_password !== undefined;
  return {
    enabled: analytics.enabled,
    httpPort: analytics.http_port,
    analystPassword: analytics.analyst_password,
    /** The sandbox of its process. `auto`: where the system has one. */
    sandbox: analytics.sandbox,
    clickhouse: {
      /** Undefined: the embedded ClickHouse. */
      url,
      user,
      password,
      database,
      /** Of a server: the user that runs analysts' SQL. Not the user that writes. */
      analyst: hasAnalyst ? { user: analyst_user, password: analyst_password } : undefined,
    },
    /** Days; 0 is without limit. */
    retention: { audit: logging.retention_days, usage: usage.retention_days },
  };
}

/** The key that encrypts credentials must be set where several gateways can use the log. */
type SharedKeyConfig = Pick<Config, 'log' | 'credentials' | 'dataDir'>;

/** Why a gateway with this configuration does not start; undefined when the key is set or not needed. */
export function missingSharedKey({ log, credentials, dataDir }: SharedKeyConfig): string | undefined {
  if (log.engine === undefined || credentials.key !== undefined || credentials.keyFile !== undefined) return undefined;
  const created = join(dataDir, 'credentials.key');
  const advice = existsSync(created)
    ? `set it to the content of ${created}, which the gateway created`
    : 'create one, for example with "openssl rand -base64 32"';
  return `all gateways on a log on an engine (LOG_URL) need the same key for credentials, and none is set; ${advice}`;
}
