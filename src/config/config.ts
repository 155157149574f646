/** The gateway's configuration as plain values. Only `main.ts` and the `config` command read it. */
import { join, resolve } from 'node:path';
import { type ResilienceConfig, resilienceOf } from './resilience.ts';
import type { ProviderConfig } from './resolve-providers.ts';
import type { FileSettings } from './schema.ts';

/** Times ending in `Ms` are milliseconds, those ending in `Seconds` seconds. */
export interface Config {
  readonly server: {
    readonly host: string;
    readonly port: number;
    readonly bodyLimitBytes: number;
    readonly maxHeaderBytes: number;
    /** How long a client may take to send its head, and its whole request. */
    readonly requestTimeouts: { readonly headersMs: number; readonly requestMs: number };
    readonly drainSeconds: number;
  };
  /** Absolute. */
  readonly dataDir: string;
  readonly masterKey: string | undefined;
  readonly unsafeOpen: boolean;
  readonly userPathHeader: string;
  readonly log: { readonly url: string; readonly durability: 'standard' | 'strict' | 'relaxed' };
  readonly http: {
    readonly timeoutMs: number;
    readonly headersTimeoutMs: number;
    readonly streamIdleTimeoutMs: number;
    /** How long a streaming client may read nothing. */
    readonly stallTimeoutMs: number;
  };
  readonly retry: ResilienceConfig['retry'];
  readonly circuitBreaker: ResilienceConfig['circuitBreaker'];
  readonly registry: {
    readonly refreshSeconds: number;
    readonly recheckSeconds: number;
    readonly modelsMode: 'fallback' | 'allowlist' | 'merge';
  };
  readonly passthrough: {
    readonly enabled: boolean;
    readonly v1Alias: boolean;
    /** The provider types that it reaches. Undefined: those that say so themselves. */
    readonly types: readonly string[] | undefined;
  };
  readonly liveLogs: { readonly enabled: boolean; readonly heartbeatSeconds: number; readonly replayLimit: number };
  readonly metrics: { readonly enabled: boolean; readonly endpoint: string };
  readonly enforceUsage: boolean;
  readonly logLevel: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
  readonly logFormat: 'auto' | 'text' | 'json';
  readonly logging: {
    readonly enabled: boolean;
    readonly capture: 'full' | 'metadata';
    /** Whether the bytes of audio and of images are kept too. */
    readonly keeps: { readonly audio: boolean; readonly image: boolean };
  };
  readonly admin: { readonly endpointsEnabled: boolean; readonly uiEnabled: boolean };
  readonly pluginsEnabled: boolean;
  readonly guardrailsEnabled: boolean;
  readonly providers: readonly ProviderConfig[];
  /** What the gateway should say at start: providers left out, variables ignored. */
  readonly notices: readonly string[];
}

/** Gives every setting its name in the program. `cwd` is what relative folders are relative to. */
export function configOf(
  settings: FileSettings,
  providers: readonly ProviderConfig[],
  notices: readonly string[],
  cwd: string,
): Config {
  const { server, http, registry, passthrough, live_logs, logging, admin } = settings;
  const dataDir = resolve(cwd, settings.data_dir);
  return {
    server: {
      host: server.host,
      port: server.port,
      bodyLimitBytes: server.body_size_limit,
      maxHeaderBytes: server.max_header_size,
      requestTimeouts: { headersMs: server.headers_timeout, requestMs: server.request_timeout },
      drainSeconds: server.drain_timeout / 1000,
    },
    dataDir,
    masterKey: server.master_key,
    unsafeOpen: server.unsafe_open,
    userPathHeader: server.user_path_header,
    log: { url: settings.log.url ?? `file:${join(dataDir, 'log')}`, durability: settings.log.durability },
    http: {
      timeoutMs: http.timeout,
      headersTimeoutMs: http.response_header_timeout,
      streamIdleTimeoutMs: http.stream_idle_timeout,
      stallTimeoutMs: server.stream_stall_timeout,
    },
    ...resilienceOf(settings.resilience),
    registry: {
      refreshSeconds: registry.refresh_interval / 1000,
      recheckSeconds: registry.recheck_interval / 1000,
      modelsMode: registry.models_mode,
    },
    passthrough: { enabled: passthrough.enabled, v1Alias: passthrough.v1_alias, types: passthrough.types },
    liveLogs: {
      enabled: live_logs.enabled,
      heartbeatSeconds: live_logs.heartbeat_interval / 1000,
      replayLimit: live_logs.replay_limit,
    },
    metrics: settings.metrics,
    enforceUsage: settings.usage.enforce_returning_usage_data,
    logLevel: logging.level,
    logFormat: logging.format,
    logging: {
      enabled: logging.enabled,
      capture: logging.bodies ? 'full' : 'metadata',
      keeps: { audio: logging.audio_bodies, image: logging.image_bodies },
    },
    admin: {
      endpointsEnabled: admin.endpoints_enabled,
      uiEnabled: admin.ui_enabled && admin.endpoints_enabled,
    },
    pluginsEnabled: settings.plugins.enabled,
    guardrailsEnabled: settings.guardrails.enabled,
    providers,
    notices,
  };
}
