import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { configFrom, load, problemsFrom } from './load.ts';

const MIB = 1024 * 1024;

describe('the sources of settings', () => {
  test('without any source every setting has its default', () => {
    const { cwd, ...loaded } = load({});
    if (!loaded.ok) throw new Error('defaults must be valid');
    const { config } = loaded;
    expect(config.server).toEqual({
      host: '127.0.0.1',
      allowedHosts: [],
      proxies: { networks: [], local: false, header: 'x-forwarded-for' },
      proxyProtocol: false,
      tls: undefined,
      basePath: '',
      adminListen: undefined,
      port: 8080,
      workers: 1,
      corsOrigins: [],
      bodyLimits: { model: 50 * MIB, audio: 26 * MIB, image: 60 * MIB, file: 513 * MIB, other: 10 * MIB },
      bodyBounds: { depth: 200, entries: 10_000, objects: 100_000, values: 500_000 },
      maxHeaderBytes: 16 * 1024,
      requestTimeouts: { headersMs: 10_000, requestMs: 300_000 },
      drainSeconds: 10,
      maxConcurrentRequests: 4096,
      websockets: { maxPerKey: 100, idleMs: 600_000, maxAgeMs: 3_600_000, pingMs: 30_000, toProviders: true },
      maxBodyMemoryBytes: 256 * MIB,
    });
    expect(config.dataDir).toBe(join(cwd, 'data'));
    const url = `file:${join(cwd, 'data', 'log')}`;
    expect(config.log).toEqual({
      url,
      readUrl: url,
      durability: 'standard',
      archiveBacklogBytes: 2 * 1024 ** 3,
      leaseMs: undefined,
      engine: undefined,
    });
    expect(config.http).toEqual({ stallTimeoutMs: 60_000 });
    expect(config.retry).toEqual({
      maxRetries: 3,
      initialBackoffMs: 1000,
      maxBackoffMs: 30_000,
      factor: 2,
      jitter: 0.1,
      onStatuses: [429, 502, 503, 504, 522, 524],
    });
    expect(config.circuitBreaker).toMatchObject({
      enabled: true,
      failureThreshold: 5,
      successThreshold: 2,
      openMs: 30_000,
    });
    expect(config.circuitBreaker.failureOnStatuses).toEqual(Array.from({ length: 100 }, (_, i) => 500 + i));
    expect(config.registry).toEqual({
      refreshSeconds: 3600,
      recheckSeconds: 60,
      modelsMode: 'fallback',
      allowLocalProviders: false,
    });
    expect(config.passthrough).toEqual({
      enabled: true,
      v1Alias: true,
      types: undefined,
      requestHeaders: [],
      answerHeaders: [],
    });
    expect(config.liveLogs).toEqual({ enabled: true, heartbeatSeconds: 15, replayLimit: 1000 });
    expect(config.metrics).toEqual({ enabled: true, endpoint: '/metrics', isPublic: false });
    expect(config.logging).toEqual({
      enabled: true,
      capture: 'full',
      refusalsPerMinute: 100,
      keeps: { audio: false, image: false },
    });
    expect(config.admin).toEqual({ endpointsEnabled: true, uiEnabled: true });
    expect(config).toMatchObject({
      masterKey: undefined,
      unsafeOpen: false,
      userPathHeader: 'X-Gateway-User-Path',
      userPathHeaderEnabled: true,
      enforceUsage: true,
      logLevel: 'info',
      logFormat: 'auto',
      pluginsEnabled: false,
      guardrailsEnabled: false,
      providers: [],
      notices: [],
    });
  });

  const flags = { port: '1' };
  const env = { PORT: '2' };
  const dotenv = 'PORT=3';
  const yaml = 'server: { port: 4 }';

  test.each([
    ['a flag wins over everything', { flags, env, dotenv, yaml }, 1],
    ['the environment wins over .env', { env, dotenv, yaml }, 2],
    ['.env wins over the file', { dotenv, yaml }, 3],
    ['the file wins over the default', { yaml }, 4],
  ])('%s', (_, written, port) => {
    expect(configFrom(written).server.port).toBe(port);
  });

  test('an empty variable is one that is not set', () => {
    expect(configFrom({ env: { PORT: '', GATEWAY_MASTER_KEY: '' }, yaml }).server.port).toBe(4);
  });

  test('an empty variable hides the one in .env, so that a shell can clear it', () => {
    expect(configFrom({ env: { PORT: '' }, dotenv }).server.port).toBe(8080);
  });

  test('an empty list of statuses means none', () => {
    const { retry, circuitBreaker } = configFrom({
      env: { RETRY_ON_STATUSES: '' },
      yaml: 'resilience: { circuit_breaker: { failure_on_statuses: "" } }',
    });
    expect(retry.onStatuses).toEqual([]);
    expect(circuitBreaker.failureOnStatuses).toEqual([]);
  });

  test('.env may quote, comment and export', () => {
    const config = configFrom({ dotenv: '# local\nexport PORT="9001" # mine\nGATEWAY_MASTER_KEY=\'a#b\'\n' });
    expect(config.server.port).toBe(9001);
    expect(config.masterKey).toBe('a#b');
  });

  test('an empty file, and a key without a value, change nothing', () => {
    expect(configFrom({ yaml: '' }).server.port).toBe(8080);
    expect(configFrom({ yaml: 'server:\n  port:\nproviders:\n' }).server.port).toBe(8080);
  });

  test.each([
    ['--config', { flags: { config: 'nowhere.yaml' } }],
    ['CHANCERY_CONFIG', { env: { CHANCERY_CONFIG: 'nowhere.yaml' } }],
  ])('a settings file named by %s must exist', (variable, written) => {
    const [problem] = problemsFrom(written);
    expect(problem).toMatchObject({ source: 'file', variable });
    expect(problem?.message).toContain('nowhere.yaml: cannot be read');
  });

  test('a file that is not valid YAML is a problem with its line', () => {
    const [problem] = problemsFrom({ yaml: 'server:\n  port: 1\n  port: 2\n' });
    expect(problem?.message).toMatch(/chancery\.yaml: is not valid YAML: Map keys must be unique at line 3/);
  });

  test('a relative data folder is below the working folder, and the log is in it', () => {
    const { cwd, ...loaded } = load({ flags: { dataDir: 'elsewhere' } });
    expect(loaded).toMatchObject({
      config: { dataDir: join(cwd, 'elsewhere'), log: { url: `file:${join(cwd, 'elsewhere', 'log')}` } },
    });
  });
});

describe('every setting has its variable', () => {
  test.each([
    ['HOST', '0.0.0.0', 'server.host', '0.0.0.0'],
    ['PORT', '9000', 'server.port', 9000],
    ['REQUEST_MAX_DEPTH', '50', 'server.bodyBounds.depth', 50],
    ['REQUEST_MAX_ENTRIES', '200', 'server.bodyBounds.entries', 200],
    ['REQUEST_MAX_OBJECTS', '2000', 'server.bodyBounds.objects', 2000],
    ['REQUEST_MAX_VALUES', '3000', 'server.bodyBounds.values', 3000],
    ['BODY_SIZE_LIMIT', '1K', 'server.bodyLimits.other', 1024],
    ['BODY_SIZE_LIMIT', '100MB', 'server.bodyLimits.file', 100 * MIB],
    ['BODY_SIZE_LIMIT', '2048', 'server.bodyLimits.model', 2048],
    ['MODEL_BODY_SIZE_LIMIT', '20M', 'server.bodyLimits.model', 20 * MIB],
    ['AUDIO_BODY_SIZE_LIMIT', '1M', 'server.bodyLimits.audio', MIB],
    ['IMAGE_BODY_SIZE_LIMIT', '2G', 'server.bodyLimits.image', 2048 * MIB],
    ['FILE_BODY_SIZE_LIMIT', '1M', 'server.bodyLimits.file', MIB],
    ['CORS_ORIGINS', 'https://a.example, http://b:1', 'server.corsOrigins', ['https://a.example', 'http://b:1']],
    ['DRAIN_TIMEOUT', '2', 'server.drainSeconds', 2],
    ['MAX_CONCURRENT_REQUESTS', '3', 'server.maxConcurrentRequests', 3],
    ['GATEWAY_MASTER_KEY', 'k', 'masterKey', 'k'],
    ['GATEWAY_UNSAFE_OPEN', 'true', 'unsafeOpen', true],
    ['GATEWAY_ALLOWED_HOSTS', 'a, b', 'server.allowedHosts', ['a', 'b']],
    ['ALLOW_PRIVATE_PROVIDERS', 'true', 'registry.allowLocalProviders', true],
    ['METRICS_PUBLIC', 'true', 'metrics.isPublic', true],
    ['METRICS_KEY', 'k', 'metrics.key', 'k'],
    ['USER_PATH_HEADER', 'X-Team', 'userPathHeader', 'X-Team'],
    ['USER_PATH_HEADER_ENABLED', 'false', 'userPathHeaderEnabled', false],
    ['LOG_URL', 'kafka://a:9092/p', 'log.url', 'kafka://a:9092/p'],
    ['LOG_DURABILITY', 'STRICT', 'log.durability', 'strict'],
    ['HTTP_TIMEOUT', '30', 'timeoutsByType.openai.answer.ms', 30_000],
    ['HTTP_RESPONSE_HEADER_TIMEOUT', '1m30s', 'timeoutsByType.openai.headers.ms', 90_000],
    ['HTTP_STREAM_IDLE_TIMEOUT', '500ms', 'timeoutsByType.openai.idle.ms', 500],
    ['STREAM_STALL_TIMEOUT', '1.5s', 'http.stallTimeoutMs', 1500],
    ['RETRY_MAX_RETRIES', '0', 'retry.maxRetries', 0],
    ['RETRY_INITIAL_BACKOFF', '2s', 'retry.initialBackoffMs', 2000],
    ['RETRY_MAX_BACKOFF', '1m', 'retry.maxBackoffMs', 60_000],
    ['RETRY_BACKOFF_FACTOR', '1.5', 'retry.factor', 1.5],
    ['RETRY_JITTER_FACTOR', '0', 'retry.jitter', 0],
    ['RETRY_ON_STATUSES', '503, 429', 'retry.onStatuses', [429, 503]],
    ['CIRCUIT_BREAKER_ENABLED', 'off', 'circuitBreaker.enabled', false],
    ['CIRCUIT_BREAKER_FAILURE_THRESHOLD', '7', 'circuitBreaker.failureThreshold', 7],
    ['CIRCUIT_BREAKER_SUCCESS_THRESHOLD', '1', 'circuitBreaker.successThreshold', 1],
    ['CIRCUIT_BREAKER_TIMEOUT', '5s', 'circuitBreaker.openMs', 5000],
    ['CIRCUIT_BREAKER_FAILURE_ON_STATUSES', '500', 'circuitBreaker.failureOnStatuses', [500]],
    ['CACHE_REFRESH_INTERVAL', '60', 'registry.refreshSeconds', 60],
    ['PROVIDER_RECHECK_INTERVAL', '5s', 'registry.recheckSeconds', 5],
    ['CONFIGURED_PROVIDER_MODELS_MODE', 'merge', 'registry.modelsMode', 'merge'],
    ['ENABLE_PASSTHROUGH_ROUTES', 'false', 'passthrough.enabled', false],
    ['ALLOW_PASSTHROUGH_V1_ALIAS', 'no', 'passthrough.v1Alias', false],
    ['ENABLED_PASSTHROUGH_PROVIDERS', 'openai, vllm', 'passthrough.types', ['openai', 'vllm']],
    ['PASSTHROUGH_REQUEST_HEADERS', 'X-A, x-b', 'passthrough.requestHeaders', ['x-a', 'x-b']],
    ['PASSTHROUGH_RESPONSE_HEADERS', 'X-A', 'passthrough.answerHeaders', ['x-a']],
    ['PASSTHROUGH_STATELESS_ROUTES', 'POST /a, GET /b', 'passthrough.statelessRoutes', ['POST /a', 'GET /b']],
    ['ENABLED_PASSTHROUGH_PROVIDERS', '', 'passthrough.types', []],
    ['DASHBOARD_LIVE_LOGS_ENABLED', '0', 'liveLogs.enabled', false],
    ['DASHBOARD_LIVE_LOGS_HEARTBEAT_SECONDS', '3', 'liveLogs.heartbeatSeconds', 3],
    ['DASHBOARD_LIVE_LOGS_REPLAY_LIMIT', '10', 'liveLogs.replayLimit', 10],
    ['METRICS_ENABLED', 'false', 'metrics.enabled', false],
    ['METRICS_ENDPOINT', '/m', 'metrics.endpoint', '/m'],
    ['LOG_LEVEL', 'debug', 'logLevel', 'debug'],
    ['LOG_FORMAT', 'json', 'logFormat', 'json'],
    ['LOGGING_ENABLED', 'false', 'logging.enabled', false],
    ['LOGGING_LOG_BODIES', 'false', 'logging.capture', 'metadata'],
    ['LOGGING_LOG_AUDIO_BODIES', 'true', 'logging.keeps.audio', true],
    ['LOGGING_LOG_IMAGE_BODIES', 'true', 'logging.keeps.image', true],
    ['ENFORCE_RETURNING_USAGE_DATA', 'false', 'enforceUsage', false],
    ['ADMIN_UI_ENABLED', 'false', 'admin.uiEnabled', false],
    ['PLUGINS_ENABLED', '1', 'pluginsEnabled', true],
    ['GUARDRAILS_ENABLED', 'yes', 'guardrailsEnabled', true],
  ])('%s=%s sets %s', (variable, value, path, expected) => {
    expect(configFrom({ env: { [variable]: value } })).toHaveProperty(path, expected);
  });

  test('without the admin endpoints there is no dashboard, and a notice names that', () => {
    const config = configFrom({ env: { ADMIN_ENDPOINTS_ENABLED: 'false' } });
    expect(config.admin).toEqual({ endpointsEnabled: false, uiEnabled: false });
    expect(config.notices).toEqual([expect.stringContaining('dashboard')]);
  });
});

describe('aliases in chancery.yaml', () => {
  const bomb = 'abcdefgh'.split('').map((name, at, all) => {
    const before = all[at - 1];
    return `${name}: &${name} [${Array(10).fill(before === undefined ? '1' : `*${before}`)}]\n`;
  });

  test.each([
    [
      'inside its own value',
      'log:\n  x: &x [*x]\n',
      'the alias at line 2, column 10 is inside the value that it repeats',
    ],
    ['that merges itself', 'x: &x\n  <<: *x\n', 'the alias at line 2, column 7 is inside the value that it repeats'],
    ['of no anchor', 'x: *secret\n', 'the alias at line 1, column 4 names no earlier anchor'],
    ['beyond the limit', bomb.join(''), 'cannot be used: Excessive alias count'],
  ])('%s is a problem that names the file', (_what, yaml, why) => {
    const [problem, ...others] = problemsFrom({ yaml });
    expect(problem?.message).toMatch(/^\/.*chancery\.yaml: /);
    expect(problem?.message).toContain(why);
    expect(problem?.message).not.toContain('secret');
    expect(others).toEqual([]);
  });
});
