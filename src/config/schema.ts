/**
 * Every setting: the structure of chancery.yaml, with the environment variable and the flag of each setting.
 * This is the only place where a setting is declared; `config.ts` gives it its name in the program.
 */
import { z } from 'zod';
import { budgetSection, rateLimitSection } from './limits-schema.ts';
import { maskLogUrl, maskProxy } from './mask.ts';
import { mcpSection } from './mcp-schema.ts';
import { otelSection } from './otel-schema.ts';
import { semanticCacheSection } from './semantic-cache-schema.ts';
import {
  bypassList,
  choice,
  decimal,
  duration,
  headerNames,
  headerText,
  headerValues,
  httpUrl,
  isSocketPath,
  list,
  listenAddress,
  mapping,
  networks,
  optionalSetting,
  proxyUrl,
  routes,
  rows,
  section,
  setting,
  settingWithSecrets,
  size,
  statuses,
  text,
  toggle,
  whole,
} from './setting.ts';

/** What the configuration needs to know about a provider type; passed in, so that this folder imports no other. */
export interface ProviderTypeFacts {
  /** Works without an API key. */
  readonly keyless: boolean;
  /** Has no default address, so one must be given. */
  readonly requiresBaseUrl: boolean;
  /** Usually a server on the same machine or network, which may take longer. */
  readonly isLocal?: boolean;
  readonly defaultBaseUrl?: string;
  /** Further options: the end of the variable's name (`API_VERSION`) to the option's name (`apiVersion`). */
  readonly extra?: Readonly<Record<string, string>>;
}

export type ProviderTypes = Readonly<Record<string, ProviderTypeFacts>>;

export const logUrlPattern = /^(file|memory|esdb|esdb\+discover|kurrentdb|kurrentdb\+discover|kafka):/;
/** Ten years. */
const MAX_CACHE_SECONDS = 315_360_000;
const headerName = () =>
  text('the name of an HTTP header', /^[!#$%&'*+.^_`|~0-9a-z-]+$/i).refine(
    (name) =>
      !/^(?:authorization|proxy-.*|api-key|x-api-key|cookie|host|connection|content-.*|transfer-encoding)$/i.test(name),
    { error: () => 'expected a header that holds no key and does not describe the connection or the body' },
  );
const userPath = /^\/?([^\s/]+\/)*[^\s/]*$/;
const path = /^\/[^\s?#]*$/;
/** As browsers send it: without a path, in lower case, without the default port. */
const isOrigin = (text: string) =>
  text === '*' || (/^https?:\/\//.test(text) && URL.canParse(text) && new URL(text).origin === text);
const modelsMode = () => choice('fallback', 'allowlist', 'merge');

const HOST_EXPECTED =
  'expected a host name or address, or unix: and the absolute path of a socket of at most 107 bytes';
const isHost = (host: string) => !host.startsWith('unix:') || isSocketPath(host);
const basePath = /^\/(?!(?:.*\/)?\.\.?(?:\/|$))(?:[\w.~-]+(?:\/[\w.~-]+)*\/?)?$/;
/** Names of networks in `trusted_proxies`. */
const proxyNames = {
  loopback: ['127.0.0.0/8', '::1/128'],
  private: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7'],
  linklocal: ['169.254.0.0/16', 'fe80::/10'],
  unix: ['unix'],
};

const server = section({
  host: setting(text().refine(isHost, { error: () => HOST_EXPECTED }), '127.0.0.1', {
    env: 'HOST',
    flag: 'host',
    describe:
      'address to listen on; 0.0.0.0 for every interface; unix:/run/chancery.sock for a Unix socket, without port and TLS',
  }),
  port: setting(whole(0, 65535), 8080, { env: 'PORT', flag: 'port', describe: '0 picks a free port' }),
  workers: setting(whole(1, 64), 1, {
    env: 'GATEWAY_WORKERS',
    flag: 'workers',
    describe: 'processes that serve requests, on one port and one data folder; as many as the machine has cores',
  }),
  master_key: optionalSetting(text('a key'), {
    env: 'GATEWAY_MASTER_KEY',
    secret: true,
    describe: 'bearer token with full access; generated on first start when not set',
  }),
  unsafe_open: setting(toggle(), false, { env: 'GATEWAY_UNSAFE_OPEN', describe: 'serve without any authentication' }),
  allowed_hosts: optionalSetting(list(), {
    env: 'GATEWAY_ALLOWED_HOSTS',
    describe:
      "host names accepted by a gateway without authentication, in addition to IP addresses, localhost and the machine's own name",
  }),
  cors_origins: setting(
    list().refine((origins) => origins.every(isOrigin), {
      error: () => 'expected origins such as https://app.example.com, or *',
    }),
    [],
    {
      env: 'CORS_ORIGINS',
      live: true,
      describe: 'origins of web pages that may use the gateway, or * for all; none when not set',
    },
  ),
  body_size_limit: optionalSetting(size('1K', '100M'), {
    env: 'BODY_SIZE_LIMIT',
    describe:
      'largest request body accepted on every route without a limit of its own; 10M for the admin API when not set',
  }),
  model_body_size_limit: optionalSetting(size('1K', '60M'), {
    env: 'MODEL_BODY_SIZE_LIMIT',
    describe: 'largest JSON body under /v1; body_size_limit or else 50M when not set',
  }),
  audio_body_size_limit: optionalSetting(size('1K', '4G'), {
    env: 'AUDIO_BODY_SIZE_LIMIT',
    describe: 'largest body under /v1/audio; body_size_limit or else 26M, a file of 25M and its form, when not set',
  }),
  image_body_size_limit: optionalSetting(size('1K', '4G'), {
    env: 'IMAGE_BODY_SIZE_LIMIT',
    describe: 'largest body under /v1/images; body_size_limit or else 60M when not set',
  }),
  file_body_size_limit: optionalSetting(size('1K', '4G'), {
    env: 'FILE_BODY_SIZE_LIMIT',
    describe:
      'largest upload to /v1/files and body under /p; body_size_limit or else 513M, a file of 512M, when not set',
  }),
  max_header_size: setting(size('1K', '1M'), '16K', { describe: 'largest request head accepted' }),
  headers_timeout: setting(duration(), '10s', { describe: 'time limit for a client to send its request head' }),
  request_timeout: setting(duration(), '5m', { describe: 'time limit for a client to send its whole request' }),
  request_max_depth: setting(whole(10, 1000), 200, {
    env: 'REQUEST_MAX_DEPTH',
    live: true,
    describe: 'levels of objects and lists in a JSON body',
  }),
  request_max_entries: setting(whole(100, 1_000_000), 10_000, {
    env: 'REQUEST_MAX_ENTRIES',
    live: true,
    describe: 'objects in one list of a JSON body (messages, parts, tools), and members of one object',
  }),
  request_max_objects: setting(whole(1000, 10_000_000), 100_000, {
    env: 'REQUEST_MAX_OBJECTS',
    live: true,
    describe: 'objects and lists in a JSON body together; 20 times as many in a batch',
  }),
  request_max_values: setting(whole(1000, 100_000_000), 500_000, {
    env: 'REQUEST_MAX_VALUES',
    live: true,
    describe: 'members and elements in a JSON body together; 20 times as many in a batch',
  }),
  max_concurrent_requests: setting(whole(1, 1_000_000), 4096, {
    env: 'MAX_CONCURRENT_REQUESTS',
    live: true,
    describe: 'model requests served at the same time; more are answered with 503 and Retry-After',
  }),
  max_body_memory: setting(size('16M', '1T'), '256M', {
    env: 'MAX_BODY_MEMORY',
    describe:
      'request bodies above 256K held at the same time, after decoding; more are answered with 503 and Retry-After',
  }),
  websocket_max_per_key: setting(whole(1, 100_000), 100, {
    env: 'WEBSOCKET_MAX_PER_KEY',
    describe: 'WebSockets of one key that are open in a process at the same time; more are refused with 429',
  }),
  websocket_idle_timeout: setting(duration(), '10m', {
    env: 'WEBSOCKET_IDLE_TIMEOUT',
    describe: 'time without a message or a running response after which a WebSocket is closed',
  }),
  websocket_max_age: setting(duration(), '60m', {
    env: 'WEBSOCKET_MAX_AGE',
    describe: 'time after which a WebSocket starts no response, and is closed when it has none',
  }),
  websocket_ping_interval: setting(duration(), '30s', {
    env: 'WEBSOCKET_PING_INTERVAL',
    describe:
      'time between pings of a WebSocket of a client or a provider; one whose last ping was not answered is ended',
  }),
  websocket_to_providers: setting(toggle(), true, {
    env: 'WEBSOCKET_TO_PROVIDERS',
    describe:
      'whether responses on a WebSocket are requested on one from providers that have them, instead of over HTTP',
  }),
  stream_stall_timeout: setting(duration(), '60s', {
    env: 'STREAM_STALL_TIMEOUT',
    live: true,
    describe: 'time without reads after which a streaming client is disconnected',
  }),
  stream_max_duration: setting(duration(), '1h', {
    env: 'STREAM_MAX_DURATION',
    live: true,
    describe: 'longest time from the headers to the end of a streamed answer of a provider; then it ends with an error',
  }),
  stream_max_size: setting(size('1K', '4G'), '256M', {
    env: 'STREAM_MAX_SIZE',
    live: true,
    describe: 'largest event stream of one answer of a provider; a longer one ends with an error',
  }),
  drain_timeout: setting(duration(0), '10s', {
    env: 'DRAIN_TIMEOUT',
    live: true,
    describe: 'time that open requests may continue during shutdown',
  }),
  base_path: setting(text('a path such as /ai', basePath), '/', {
    env: 'BASE_PATH',
    describe: 'path below which every route is, for proxies that do not remove it',
  }),
  admin_listen: optionalSetting(listenAddress(), {
    env: 'ADMIN_LISTEN',
    describe:
      'address at which /admin and the metrics are served, and nothing else but health checks; they are then not served at ' +
      'host and port',
  }),
  trusted_proxies: setting(networks(proxyNames), [], {
    env: 'TRUSTED_PROXIES',
    describe:
      'networks of proxies whose headers state the client: in CIDR notation, or loopback, private, linklocal, unix (peers of ' +
      'a Unix socket); none when not set',
  }),
  client_address_header: setting(headerName(), 'X-Forwarded-For', {
    env: 'CLIENT_ADDRESS_HEADER',
    describe: "header of trusted proxies: X-Forwarded-For, Forwarded, or one with the client's address alone",
  }),
  proxy_protocol: setting(toggle(), false, {
    env: 'PROXY_PROTOCOL',
    describe: 'true: trusted proxies begin each connection with a header of the PROXY protocol, version 1 or 2',
  }),
  tls: section({
    cert_file: optionalSetting(text('a file'), {
      env: 'TLS_CERT_FILE',
      describe:
        'PEM file of the certificate and its chain: clients use HTTPS, with HTTP/1.1 or HTTP/2; HTTP when not set',
    }),
    key_file: optionalSetting(text('a file'), { env: 'TLS_KEY_FILE', describe: 'PEM file of its private key' }),
    client_ca_file: optionalSetting(text('a file'), {
      env: 'TLS_CLIENT_CA_FILE',
      describe: 'PEM file of the authorities that sign certificates of clients; clients are then asked for one',
    }),
    client_auth: setting(choice('optional', 'required'), 'optional', {
      env: 'TLS_CLIENT_AUTH',
      describe: 'whether a client needs a certificate; one that it presents is always checked',
    }),
  }),
  user_path_header: setting(headerName(), 'X-Gateway-User-Path', {
    env: 'USER_PATH_HEADER',
    describe: 'request header that names the user path',
  }),
  user_path_header_enabled: setting(toggle(), true, {
    env: 'USER_PATH_HEADER_ENABLED',
    describe: 'false: user path headers are ignored for every key',
  }),
});

export const logSection = section({
  url: optionalSetting(text('file:, esdb:, kurrentdb: or kafka: and an address', logUrlPattern), {
    env: 'LOG_URL',
    flag: 'logUrl',
    masking: maskLogUrl,
    describe: 'where the event log is; the folder "log" in data_dir when not set',
  }),
  durability: setting(choice('standard', 'strict', 'relaxed'), 'standard', {
    env: 'LOG_DURABILITY',
    flag: 'logDurability',
    describe: 'what must be on disk before a request continues',
  }),
  archive_backlog: setting(size('0', '1T'), '2G', {
    env: 'LOG_ARCHIVE_BACKLOG',
    describe:
      'full log segments that may wait uncompressed until the gateway is idle, at most a quarter of the free disk; 0: they ' +
      'are compressed at once',
  }),
  lease: setting(duration(1000), '10s', {
    env: 'LOG_LEASE',
    describe:
      'on Kafka or EventStoreDB, or with several workers: how long a gateway stays one of the gateways on the log without ' +
      'being heard of; others then take over its exchanges',
  }),
  user: optionalSetting(text('a user'), {
    env: 'LOG_USER',
    describe: 'user of Kafka or EventStoreDB, instead of one in the address',
  }),
  password: optionalSetting(text('a password'), {
    env: 'LOG_PASSWORD',
    secret: true,
    describe: 'password of that user',
  }),
  sasl_mechanism: optionalSetting(choice('plain', 'scram-sha-256', 'scram-sha-512'), {
    env: 'LOG_SASL_MECHANISM',
    describe: 'how Kafka checks user and password; plain when not set',
  }),
  tls: section({
    enabled: optionalSetting(toggle(), {
      env: 'LOG_TLS',
      describe: 'whether Kafka or EventStoreDB is reached with TLS; as the address says when not set',
    }),
    ca: optionalSetting(text('a file'), {
      env: 'LOG_TLS_CA',
      describe: 'PEM file of the authority that signed the certificates of Kafka or EventStoreDB',
    }),
    cert: optionalSetting(text('a file'), {
      env: 'LOG_TLS_CERT',
      describe: 'PEM file of the certificate with which the gateway identifies itself',
    }),
    key: optionalSetting(text('a file'), { env: 'LOG_TLS_KEY', describe: 'PEM file of its private key' }),
  }),
});

const http = section({
  timeout: optionalSetting(duration(), {
    env: 'HTTP_TIMEOUT',
    live: true,
    describe: 'time limit for a non-streaming answer of a provider; 600s when not set, 1h for local types',
  }),
  response_header_timeout: optionalSetting(duration(), {
    env: 'HTTP_RESPONSE_HEADER_TIMEOUT',
    live: true,
    describe: 'time limit for the first byte of a provider; 600s when not set, 1h for local types',
  }),
  stream_idle_timeout: optionalSetting(duration(), {
    env: 'HTTP_STREAM_IDLE_TIMEOUT',
    live: true,
    describe: 'longest silence within a provider stream; 300s when not set, 1h for local types',
  }),
  https_proxy: optionalSetting(proxyUrl(), {
    env: 'https_proxy',
    aliases: ['HTTPS_PROXY'],
    masking: maskProxy,
    describe: 'proxy of connections to https addresses; the one for all when not set',
  }),
  http_proxy: optionalSetting(proxyUrl(), {
    env: 'http_proxy',
    aliases: ['HTTP_PROXY'],
    masking: maskProxy,
    describe: 'proxy of connections to http addresses; the one for all when not set',
  }),
  all_proxy: optionalSetting(proxyUrl(), {
    env: 'all_proxy',
    aliases: ['ALL_PROXY'],
    masking: maskProxy,
    describe: 'proxy of connections without one of their own',
  }),
  no_proxy: setting(bypassList(), [], {
    env: 'no_proxy',
    aliases: ['NO_PROXY'],
    describe: 'names, addresses and networks that are reached without a proxy; * for all',
  }),
});

const retryKinds = {
  max_retries: whole(0, 20),
  initial_backoff: duration(0),
  max_backoff: duration(0),
  backoff_factor: decimal(1, 100),
  jitter_factor: decimal(0, 1),
  on_statuses: statuses(),
};

const breakerKinds = {
  enabled: toggle(),
  failure_threshold: whole(1, 1_000_000),
  success_threshold: whole(1, 1_000_000),
  timeout: duration(),
  failure_on_statuses: statuses(),
};

const resilience = section({
  retry: section({
    max_retries: setting(retryKinds.max_retries, 3, { env: 'RETRY_MAX_RETRIES', live: true }),
    initial_backoff: setting(retryKinds.initial_backoff, '1s', { env: 'RETRY_INITIAL_BACKOFF', live: true }),
    max_backoff: setting(retryKinds.max_backoff, '30s', { env: 'RETRY_MAX_BACKOFF', live: true }),
    backoff_factor: setting(retryKinds.backoff_factor, 2, { env: 'RETRY_BACKOFF_FACTOR', live: true }),
    jitter_factor: setting(retryKinds.jitter_factor, 0.1, { env: 'RETRY_JITTER_FACTOR', live: true }),
    on_statuses: setting(retryKinds.on_statuses, '429,502,503,504,522,524', {
      env: 'RETRY_ON_STATUSES',
      live: true,
      emptyIsNone: true,
      describe: 'provider statuses that are retried; empty for none; 429 for background responses only',
    }),
  }),
  circuit_breaker: section({
    enabled: setting(breakerKinds.enabled, true, { env: 'CIRCUIT_BREAKER_ENABLED', live: true }),
    failure_threshold: setting(breakerKinds.failure_threshold, 5, {
      env: 'CIRCUIT_BREAKER_FAILURE_THRESHOLD',
      live: true,
    }),
    success_threshold: setting(breakerKinds.success_threshold, 2, {
      env: 'CIRCUIT_BREAKER_SUCCESS_THRESHOLD',
      live: true,
    }),
    timeout: setting(breakerKinds.timeout, '30s', {
      env: 'CIRCUIT_BREAKER_TIMEOUT',
      live: true,
      describe: 'time an open circuit breaker refuses requests before it allows a probe',
    }),
    failure_on_statuses: setting(breakerKinds.failure_on_statuses, '5xx', {
      env: 'CIRCUIT_BREAKER_FAILURE_ON_STATUSES',
      live: true,
      emptyIsNone: true,
      describe: 'provider statuses that count as failures; 429 and 501 never count',
    }),
  }),
});

/** A provider's own resilience; missing members are those of the global settings. */
const ownResilience = mapping({
  retry: mapping(retryKinds).partial().optional(),
  circuit_breaker: mapping(breakerKinds).partial().optional(),
});

const userPolicy = mapping({
  path: text('a user path such as /team/alpha', userPath),
  allowed_models: list('a list of selectors, or text with commas'),
  description: text().optional(),
});

const failoverKinds = { enabled: toggle(), statuses: statuses(), phrases: list() };

const virtualTarget = mapping({
  provider: text('a provider').optional(),
  model: text('a model', /\S/),
  weight: decimal(0, 1_000_000).optional(),
});

const strategies = ['round_robin', 'cost', 'failover', 'adaptive', 'cheapest_healthy', 'plugin'];
/** Route strategies of plugins are known only after the configuration was read. */
const strategyName = new RegExp(`^(?:${strategies.join('|')}|plugin:.+)$`);

/** As in `PUT /admin/virtual-models`. */
const virtualModel = mapping({
  source: text('a name, or a selector of models', /\S/),
  target_model: text('a model', /\S/).optional(),
  targets: z.array(virtualTarget, { error: () => 'expected a list of targets, each with a model' }).optional(),
  strategy: text(`one of ${strategies.join(', ')}, or plugin:<name>`, strategyName).optional(),
  strategy_plugin: text('the name of a route strategy', /\S/).optional(),
  strategy_config: z
    .record(z.string(), z.unknown(), { error: () => 'expected a mapping of settings of the route strategy' })
    .optional(),
  session_affinity: toggle().optional(),
  failover: z
    .union([mapping(failoverKinds).partial(), toggle()], {
      error: () => 'expected true or false, or a mapping with enabled, statuses and phrases',
    })
    .optional(),
  user_paths: z
    .array(text('a user path such as /team/alpha', userPath), { error: () => 'expected a list of user paths' })
    .optional(),
  description: text().optional(),
  enabled: toggle().optional(),
});

/** As in `PUT /admin/guardrails`, with the place in the default workflow. */
const guardrailRule = settingWithSecrets(
  mapping({
    name: text('a name', /\S/),
    type: text('a guardrail type', /\S/),
    description: text().optional(),
    user_path: text('a user path such as /team/alpha', userPath).optional(),
    config: settingWithSecrets(
      z.record(z.string(), z.unknown(), { error: () => 'expected a mapping of settings of the type' }).optional(),
    ),
    fail_mode: choice('closed', 'open').optional(),
    timeout_ms: whole(0, 600_000).optional(),
    phases: z
      .array(choice('prompt', 'response', 'stream'), { error: () => 'expected a list of prompt, response and stream' })
      .optional(),
    step: whole(0, 1_000_000).optional(),
  }),
);

/** A plugin to load. */
const pluginEntry = settingWithSecrets(
  mapping({
    path: text('a module, or a folder with a package.json', /\S/).optional(),
    package: text('the name of a package', /^(@[^/\s]+\/)?[^/\s]+$/).optional(),
    name: text('lower-case letters, digits, _ and -', /^[a-z][a-z0-9_-]{0,63}$/).optional(),
    config: settingWithSecrets(
      z.record(z.string(), z.unknown(), { error: () => 'expected a mapping of settings of the plugin' }).optional(),
    ),
    required: toggle().optional(),
    memory_limit: size('160M', '64G').optional(),
    timeout: duration().optional(),
    fail_mode: choice('closed', 'open').optional(),
  }).refine(({ path, package: name }) => (path === undefined) !== (name === undefined), {
    error: () => 'expected either path or package',
  }),
);

/** A rule by which a request header becomes labels. */
const taggingRule = mapping({
  header: headerName(),
  prefix: text().optional(),
  delimiter: text('a delimiter of up to 10 characters', /^.{1,10}$/).optional(),
  do_not_pass: toggle().optional(),
});

/** A request header that names the client's session. */
const sessionHeader = mapping({
  header: headerName(),
  transform: choice('session-uuid').optional(),
});

const settings = {
  data_dir: setting(text('a folder'), './data', {
    env: 'DATA_DIR',
    flag: 'dataDir',
    describe: 'folder for all data of the gateway',
  }),
  server,
  log: logSection,
  http,
  resilience,
  registry: section({
    refresh_interval: setting(duration(), '3600s', { env: 'CACHE_REFRESH_INTERVAL' }),
    recheck_interval: setting(duration(), '60s', {
      env: 'PROVIDER_RECHECK_INTERVAL',
      describe: 'interval between attempts to list the models of a provider whose listing failed',
    }),
    models_mode: setting(modelsMode(), 'fallback', {
      env: 'CONFIGURED_PROVIDER_MODELS_MODE',
      live: true,
      describe: "how a provider's configured models are used: when it lists none, exclusively, or in addition",
    }),
    allow_private_providers: setting(toggle(), false, {
      env: 'ALLOW_PRIVATE_PROVIDERS',
      describe:
        'allow loopback, link-local and cloud metadata addresses for providers added at run time, and for servers of guardrails defined there',
    }),
  }),
  passthrough: section({
    enabled: setting(toggle(), true, { env: 'ENABLE_PASSTHROUGH_ROUTES' }),
    v1_alias: setting(toggle(), true, { env: 'ALLOW_PASSTHROUGH_V1_ALIAS' }),
    types: optionalSetting(list(), {
      env: 'ENABLED_PASSTHROUGH_PROVIDERS',
      emptyIsNone: true,
      describe: 'provider types served at /p/{provider}; when not set, each type has its own default',
    }),
    stateless_routes: optionalSetting(routes(), {
      env: 'PASSTHROUGH_STATELESS_ROUTES',
      describe: 'additional routes below /p/{provider} that access no stored objects and are open to every key',
    }),
    request_headers: setting(headerNames(), [], {
      env: 'PASSTHROUGH_REQUEST_HEADERS',
      describe: 'further headers of clients that are forwarded under /p/{provider}; none that holds credentials',
    }),
    response_headers: setting(headerNames(), [], {
      env: 'PASSTHROUGH_RESPONSE_HEADERS',
      describe: "further headers of providers' answers that are returned under /p/{provider}",
    }),
  }),
  live_logs: section({
    enabled: setting(toggle(), true, { env: 'DASHBOARD_LIVE_LOGS_ENABLED' }),
    heartbeat_interval: setting(duration(), '15s', { env: 'DASHBOARD_LIVE_LOGS_HEARTBEAT_SECONDS' }),
    replay_limit: setting(whole(0, 1_000_000), 1000, {
      env: 'DASHBOARD_LIVE_LOGS_REPLAY_LIMIT',
      describe: 'number of live log previews replayed to a reconnecting client; after a longer gap it receives a reset',
    }),
  }),
  realtime: section({
    enabled: setting(toggle(), true, {
      env: 'REALTIME_ENABLED',
      describe: 'serve realtime sessions: /v1/realtime, and WebSockets below /p',
    }),
    record_audio: setting(toggle(), true, {
      env: 'REALTIME_RECORD_AUDIO',
      describe: 'record the audio in the messages of sessions, not only its size',
    }),
  }),
  metrics: section({
    enabled: setting(toggle(), true, { env: 'METRICS_ENABLED' }),
    endpoint: setting(text('a path starting with /', path), '/metrics', { env: 'METRICS_ENDPOINT' }),
    public: setting(toggle(), false, { env: 'METRICS_PUBLIC', describe: 'serve the metrics without a key' }),
    key: optionalSetting(text('a key'), {
      env: 'METRICS_KEY',
      secret: true,
      describe: 'bearer token that reads the metrics and nothing else',
    }),
  }),
  otel: otelSection,
  logging: section({
    level: setting(choice('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), 'info', {
      env: 'LOG_LEVEL',
      live: true,
      flag: 'logLevel',
      describe: "the gateway's own diagnostics on standard error",
    }),
    format: setting(choice('auto', 'text', 'json'), 'auto', {
      env: 'LOG_FORMAT',
      describe: 'auto: text on a terminal, else JSON',
    }),
    enabled: setting(toggle(), true, {
      env: 'LOGGING_ENABLED',
      describe: 'audit logging; no effect yet: requests are always recorded',
    }),
    bodies: setting(toggle(), true, {
      env: 'LOGGING_LOG_BODIES',
      describe: 'record request and answer bodies; false records metadata only',
    }),
    refusals_per_minute: setting(whole(0, 1_000_000), 100, {
      env: 'LOGGING_REFUSALS_PER_MINUTE',
      describe: 'refused requests of one key recorded individually per minute; further ones are counted',
    }),
    audio_bodies: setting(toggle(), false, {
      env: 'LOGGING_LOG_AUDIO_BODIES',
      describe: 'record the bytes of audio, not only their size and digest',
    }),
    image_bodies: setting(toggle(), false, {
      env: 'LOGGING_LOG_IMAGE_BODIES',
      describe: 'record the bytes of images, not only their size and digest',
    }),
    retention_days: setting(whole(0, 36500), 30, {
      env: 'LOGGING_RETENTION_DAYS',
      describe: 'how long analytics keeps requests and events; 0 for no limit. The log keeps them in any case',
    }),
  }),
  usage: section({
    enabled: setting(toggle(), true, {
      env: 'USAGE_ENABLED',
      describe: 'track spending; budgets require it. Usage is recorded in any case',
    }),
    pricing_recalculation_enabled: setting(toggle(), true, {
      env: 'USAGE_PRICING_RECALCULATION_ENABLED',
      describe: 'allow administrators to recalculate past costs',
    }),
    retention_days: setting(whole(0, 36500), 90, {
      env: 'USAGE_RETENTION_DAYS',
      describe: 'how long analytics keeps usage; 0 for no limit. The log keeps it in any case',
    }),
    enforce_returning_usage_data: setting(toggle(), true, {
      env: 'ENFORCE_RETURNING_USAGE_DATA',
      describe: 'request usage from providers in streams',
    }),
  }),
  budgets: budgetSection,
  rate_limits: rateLimitSection,
  credentials: section({
    key: optionalSetting(text('at least 32 characters', /^.{32,}$/s), {
      env: 'CREDENTIALS_KEY',
      secret: true,
      describe: 'encrypts the secrets of providers added at run time; generated in data_dir when not set',
    }),
    key_file: optionalSetting(text('a file'), {
      env: 'CREDENTIALS_KEY_FILE',
      describe: 'file that holds that key, instead of the one in data_dir',
    }),
  }),
  tagging: section({
    headers: optionalSetting(z.array(taggingRule, { error: () => 'expected a list of rules, each with a header' }), {
      describe: 'request headers that become labels; in the environment TAGGING_HEADER_1 and so on',
    }),
  }),
  session: section({
    keeping_enabled: setting(toggle(), true, {
      env: 'SESSION_KEEPING_ENABLED',
      describe: 'detect the client session of each request',
    }),
    auto_detect: setting(toggle(), false, {
      env: 'SESSION_AUTO_DETECT',
      describe: 'detect sessions by the beginning of a conversation when the client sends no session id',
    }),
    builtin_rules: setting(toggle(), true, {
      env: 'SESSION_BUILTIN_RULES',
      describe: 'read the headers and fields in which well-known clients send session ids',
    }),
    headers: optionalSetting(z.array(sessionHeader, { error: () => 'expected a list of rules, each with a header' }), {
      describe: 'additional request headers that hold a session id; in the environment SESSION_HEADER_1 and so on',
    }),
  }),
  analytics: section({
    enabled: setting(toggle(), true, {
      env: 'ANALYTICS_ENABLED',
      describe: 'project the log into ClickHouse for SQL queries and the reports of the admin API',
    }),
    http_port: setting(whole(0, 65535), 8123, {
      env: 'ANALYTICS_HTTP_PORT',
      describe: 'loopback port of the embedded ClickHouse, or the next free port; 0 picks one',
    }),
    analyst_password: optionalSetting(text('a password'), {
      env: 'ANALYTICS_ANALYST_PASSWORD',
      secret: true,
      describe: 'password of the user analyst of the embedded ClickHouse; generated in data_dir when not set',
    }),
    sandbox: setting(choice('auto', 'required', 'off'), 'auto', {
      env: 'ANALYTICS_SANDBOX',
      describe: 'sandbox of its process with bwrap; auto uses it where available, required refuses to run without it',
    }),
    clickhouse: section({
      url: optionalSetting(httpUrl(), {
        env: 'CLICKHOUSE_URL',
        describe: 'HTTP address of a ClickHouse server; when not set, an embedded one keeps its data in data_dir',
      }),
      user: setting(text('a user'), 'default', { env: 'CLICKHOUSE_USER' }),
      password: optionalSetting(text('a password'), { env: 'CLICKHOUSE_PASSWORD', secret: true }),
      analyst_user: optionalSetting(text('a user'), {
        env: 'CLICKHOUSE_ANALYST_USER',
        describe: 'read-only user on the server for SQL of analysts; created by "chancery analytics setup"',
      }),
      analyst_password: optionalSetting(text('a password'), { env: 'CLICKHOUSE_ANALYST_PASSWORD', secret: true }),
      database: setting(text('a plain name', /^[A-Za-z_]\w{0,63}$/), 'chancery', {
        env: 'CLICKHOUSE_DATABASE',
        describe: 'database for one log',
      }),
    }),
  }),
  admin: section({
    endpoints_enabled: setting(toggle(), true, { env: 'ADMIN_ENDPOINTS_ENABLED' }),
    ui_enabled: setting(toggle(), true, {
      env: 'ADMIN_UI_ENABLED',
      describe: 'the dashboard at /admin/dashboard; requires the admin endpoints',
    }),
  }),
  models: section({
    enabled_by_default: setting(toggle(), true, {
      env: 'MODELS_ENABLED_BY_DEFAULT',
      describe: 'allow models that no access policy mentions',
    }),
    list_only_virtual: setting(toggle(), false, {
      env: 'KEEP_ONLY_ALIASES_AT_MODELS_ENDPOINT',
      describe: 'GET /v1/models lists only virtual models',
    }),
  }),
  failover: section({
    enabled: setting(toggle(), true, {
      env: 'FAILOVER_ENABLED',
      describe: 'call another target of a virtual model when one fails',
    }),
    max_attempts: setting(whole(0, 64), 0, {
      env: 'FAILOVER_MAX_ATTEMPTS',
      describe: 'maximum number of targets called for one request; 0 for all',
    }),
    retry_on_statuses: setting(statuses(), '429,5xx', {
      env: 'FAILOVER_RETRY_ON_STATUSES',
      emptyIsNone: true,
      describe: 'provider statuses after which another target is called',
    }),
    retry_on_errors: optionalSetting(list('phrases, or text with commas'), {
      env: 'FAILOVER_RETRY_ON_ERRORS',
      emptyIsNone: true,
      describe:
        'error phrases after which another target is called; * matches anything; when not set, phrases for a missing model or a too long prompt',
    }),
  }),
  cache: section({
    response: section({
      enabled: setting(toggle(), false, {
        env: 'RESPONSE_CACHE_ENABLED',
        aliases: ['RESPONSE_CACHE_SIMPLE_ENABLED'],
        describe: 'answer requests that are equal to an earlier one with its recorded answer',
      }),
      ttl_seconds: setting(whole(1, MAX_CACHE_SECONDS), 3600, {
        env: 'RESPONSE_CACHE_TTL',
        aliases: ['REDIS_TTL_RESPONSES'],
        describe: 'seconds for which an answer may be served again, unless the request or its workflow says otherwise',
      }),
      max_ttl_seconds: setting(whole(1, MAX_CACHE_SECONDS), 30 * 86_400, {
        env: 'RESPONSE_CACHE_MAX_TTL',
        describe: 'the longest time that a request or a workflow may set',
      }),
      max_entries: setting(whole(1, 10_000_000), 100_000, {
        env: 'RESPONSE_CACHE_MAX_ENTRIES',
        describe: 'answers that may be served again; the least recently used ones are dropped',
      }),
      max_memory_bytes: setting(size('0', '1T'), '64M', {
        env: 'RESPONSE_CACHE_MAX_MEMORY',
        describe: 'answers kept ready in memory; others are read from the log',
      }),
      max_answer_bytes: setting(size('1K', '64M'), '1M', {
        env: 'RESPONSE_CACHE_MAX_ANSWER',
        describe: 'the largest answer that may be served again',
      }),
    }),
    semantic: semanticCacheSection,
  }),
  virtual_models: setting(rows(virtualModel), [], {
    env: 'VIRTUAL_MODELS',
    live: true,
    json: true,
    rowsBy: 'source',
    describe: 'virtual models and access policies; read-only for the admin API',
  }),
  users: setting(rows(userPolicy), [], {
    env: 'USERS',
    live: true,
    json: true,
    describe: 'allowed models per user path; these policies are read-only for the admin API',
  }),
  plugins: section({
    enabled: setting(toggle(), false, {
      env: 'PLUGINS_ENABLED',
      describe: 'load plugins; guardrails can be defined, and run only while GUARDRAILS_ENABLED is true',
    }),
    search_paths: setting(list('folders, or text with commas'), [], {
      env: 'PLUGINS_SEARCH_PATHS',
      aliases: ['PLUGINS_DIR'],
      describe: 'folders in which every module, and every folder with a package.json, is a plugin',
    }),
    load: setting(rows(pluginEntry), [], {
      env: 'PLUGINS',
      json: true,
      holdsSecrets: true,
      describe: 'plugins: each a path or a package, with name, config, required, memory_limit, timeout and fail_mode',
    }),
    memory_limit: setting(size('160M', '64G'), '256M', {
      env: 'PLUGINS_MEMORY_LIMIT',
      describe: 'resident memory of the process of each plugin; one that holds more is ended',
    }),
    timeout: setting(duration(), '5s', {
      env: 'PLUGINS_TIMEOUT',
      describe: 'time limit of a call of a plugin, for guardrails without timeout_ms',
    }),
    max_timeout: setting(duration(), '60s', {
      env: 'PLUGINS_MAX_TIMEOUT',
      describe: 'longest time limit of a call of a plugin, also with a longer timeout_ms',
    }),
  }),
  mcp: mcpSection,
  guardrails: section({
    enabled: setting(toggle(), false, {
      env: 'GUARDRAILS_ENABLED',
      describe: 'the guardrails of workflows run',
    }),
    rules: setting(rows(guardrailRule), [], {
      env: 'GUARDRAILS',
      live: true,
      json: true,
      rowsBy: 'name',
      holdsSecrets: true,
      describe: 'guardrails, and steps of the default workflow in their order; read-only for the admin API',
    }),
  }),
};

const model = z.union(
  [z.string(), z.strictObject({ id: z.string().min(1), metadata: z.record(z.string(), z.unknown()).optional() })],
  { error: () => 'expected a model id, or a mapping with an id and metadata' },
);

const strictParameters =
  'whether seed, logit_bias and penalties are refused where its API has no such setting; if not, they are ignored; true when not set';

function providerSchema(types: ProviderTypes) {
  const extras = Object.values(types).flatMap((facts) => Object.keys(facts.extra ?? {}));
  // Typed without members, since they are only known at run time.
  const options: object = Object.fromEntries(
    extras.map((name) => [
      name.toLowerCase(),
      name === 'STRICT_PARAMETERS'
        ? optionalSetting(toggle(), { describe: strictParameters })
        : optionalSetting(headerText()),
    ]),
  );
  return mapping({
    type: choice(...Object.keys(types)),
    base_url: optionalSetting(httpUrl(), { describe: 'base URL of its API' }),
    api_key: optionalSetting(headerText('a key'), { secret: true }),
    api_keys: optionalSetting(z.array(headerText('a key'), { error: () => 'expected a list of keys' }), {
      secret: true,
    }),
    models: z
      .union([list(), z.array(model)], { error: () => 'expected a list of models, or text with commas' })
      .optional(),
    models_mode: optionalSetting(modelsMode()),
    timeout: optionalSetting(duration(), {
      describe: 'time limit for the first byte of its answer, and then for the end of a non-streaming answer',
    }),
    stream_idle_timeout: optionalSetting(duration(), { describe: 'longest silence within its streams' }),
    proxy_url: optionalSetting(proxyUrl('none'), {
      masking: maskProxy,
      describe: 'proxy of its connections, instead of the general ones; none: they are direct',
    }),
    ca_file: optionalSetting(text('a file'), {
      describe: 'PEM file of the authorities that its certificate is checked against, instead of the usual ones',
    }),
    client_cert_file: optionalSetting(text('a file'), {
      describe: 'PEM file of the certificate with which the gateway identifies itself to it',
    }),
    client_key_file: optionalSetting(text('a file'), { describe: 'PEM file of the private key of that certificate' }),
    headers: optionalSetting(headerValues(), {
      secret: true,
      describe: 'headers that are sent with every request to it, over those of clients',
    }),
    resilience: ownResilience.optional(),
    ...options,
  });
}

const providerName = z.string().regex(/^[a-z0-9][a-z0-9._-]*$/i);

/** The structure of chancery.yaml. */
export function fileSchema(types: ProviderTypes) {
  const providers = z.record(providerName, providerSchema(types), {
    error: (issue) => (issue.code === 'invalid_type' ? 'expected a mapping of provider names to providers' : undefined),
  });
  return mapping({ ...settings, providers: z.prefault(providers, {}) });
}

export type FileSettings = z.output<ReturnType<typeof fileSchema>>;
