/** The whole program, wired by hand: reading this file shows every part and who knows whom. */
import { mkdirSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { createSimulatedProvider } from '../infra/simulated-provider/server.ts';
import { everybodyAdmitted } from './commands/exchange/admission.ts';
import { createChatDialect } from './commands/exchange/chat-dialect.ts';
import { CircuitBreaker } from './commands/exchange/circuit-breaker.ts';
import { closeOpenExchanges, resumableRun } from './commands/exchange/close-open-exchanges.ts';
import { DetachedClients } from './commands/exchange/detached-client.ts';
import { embeddingsDialect } from './commands/exchange/embeddings-dialect.ts';
import { type ExchangeDependencies, type Resilience, runExchange } from './commands/exchange/exchange.ts';
import { responsesBodyChanges } from './commands/exchange/forward-responses.ts';
import { messagesDialect } from './commands/exchange/messages-dialect.ts';
import { type CloseOpen, OpenRecords } from './commands/exchange/open-records.ts';
import { passthroughDialect } from './commands/exchange/passthrough.ts';
import type { RecordedExchange } from './commands/exchange/recorded-exchange.ts';
import { createResponsesDialect } from './commands/exchange/responses-dialect.ts';
import { resumeExchange } from './commands/exchange/resume-exchange.ts';
import { directRouter } from './commands/exchange/route.ts';
import { unpriced } from './commands/pricing/pricing.ts';
import { ProviderJournal } from './commands/providers/provider-journal.ts';
import { itemFinder } from './commands/responses/find-item.ts';
import type { LifecycleDependencies } from './commands/responses/lifecycle.ts';
import type { Config } from './config/config.ts';
import { gatewayStarted, gatewayStopped } from './events/catalogue/gateway.ts';
import { streamName, type UserPath } from './events/event.ts';
import { mintEventId } from './events/event-id.ts';
import { openLog } from './events/open-log.ts';
import { createLiveLogs } from './http/admin/live-logs.ts';
import { mountAdmin } from './http/admin/mount.ts';
import { createAuthenticator } from './http/auth.ts';
import { registerHealth } from './http/health.ts';
import { createMetrics, registerMetrics } from './http/metrics.ts';
import { OpenExchanges } from './http/open-exchanges.ts';
import { registerOpenApi } from './http/openapi.ts';
import { registerPassthrough } from './http/passthrough.ts';
import { createServer } from './http/server.ts';
import { registerConversations } from './http/v1/conversations.ts';
import { registerFiles } from './http/v1/files.ts';
import { registerCountTokens } from './http/v1/messages.ts';
import { registerModelEndpoints } from './http/v1/model-endpoints.ts';
import { registerModelRoutes } from './http/v1/model-routes.ts';
import { registerModels } from './http/v1/models.ts';
import { registerResponses } from './http/v1/responses.ts';
import { openExchanges } from './projections/in-flight.ts';
import { createItemIndex } from './projections/items.ts';
import { exchangesLeftOpen, OpenExchangesView } from './projections/open-exchanges-view.ts';
import { providerMemory } from './projections/provider-memory.ts';
import { createResponseArchive } from './projections/responses.ts';
import { createProjectionRunner } from './projections/runner.ts';
import { createTrackedObjects } from './projections/tracked-objects.ts';
import { openViewStore } from './projections/view-store.ts';
import { createProvider } from './providers/create-provider.ts';
import { createRegistry, type Registry } from './providers/registry.ts';
import { providerType } from './providers/types.ts';

const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** More than an event needs beside its body. */
const ENVELOPE_BYTES = 1024 * 1024;

export interface Gateway {
  /** For example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly demo: boolean;
  /**
   * Resolves when everything is on disk and nothing runs any more.
   * @throws LogUnavailable when the log cannot take the last events: what was acknowledged is there all the same
   */
  stop(reason: string): Promise<void>;
}

export async function startGateway(config: Config, masterKey: string | undefined, logger: Logger): Promise<Gateway> {
  const now = () => Math.floor(Date.now() / 1000);
  const onError = (error: unknown) => logger.error(error);

  // The log, and what is known from it.
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const log = await openLog(config.log.url, { durability: config.log.durability });
  const views = openViewStore(join(config.dataDir, 'views.db'), { onDiscarded: (reason) => logger.warn(reason) });
  const projections = createProjectionRunner(log, views, { onError });
  const remembered = projections.run(providerMemory);
  const leftOpen = openExchanges(await exchangesLeftOpen(log, views)).map(({ stream }) => stream);
  await remembered.caughtUp;
  const archive = createResponseArchive(log);
  const index = createItemIndex(log);
  const findItem = (caller: UserPath | undefined) => itemFinder(caller, { log, archive, index });
  const journal = new ProviderJournal(log, onError);
  const modelDialects = [
    createChatDialect({ enforceUsage: config.enforceUsage }),
    createResponsesDialect({
      archive,
      log,
      findItem,
      now,
      learned: (name, supported) => journal.learnedResponses(name, supported),
    }),
    embeddingsDialect,
    messagesDialect,
  ];
  const dialects = new Map(modelDialects.map((dialect) => [dialect.name, dialect]));
  const pricing = unpriced;
  const close: CloseOpen = (streams, why) => closeOpenExchanges(streams, { log, dialects, archive, pricing }, why);
  const interrupted = await close(leftOpen, 'gateway_stopped');
  if (leftOpen.length > 0) {
    logger.warn(`closed ${leftOpen.length - interrupted.length} exchanges that the last run left open`);
  }
  const resume = (told: RecordedExchange) => {
    const run = resumableRun(told, dialects, log);
    if (run !== undefined && !stopping) exchanges.track(resumeExchange(run, deps));
  };
  const open = new OpenRecords({ log, close, resume, onError });
  const foldFrom = () => open.allAfter();
  const openView = new OpenExchangesView({ log, views, projections, foldFrom, onError });
  log.onStatusChange(({ state, reason }) => {
    if (state === 'ok') {
      logger.info('the event log can be written again');
      void open.closeLeftOpen();
    } else logger.error(`the event log cannot be written: ${reason}`);
  });

  // Who answers.
  const demo = config.providers.length === 0 ? createSimulatedProvider({ paceMs: 30 }) : undefined;
  const configs = demo === undefined ? config.providers : [{ ...demoProvider, baseUrl: await demo.listen() }];
  const known = new Map([...remembered.state].map(([name, { models }]) => [name, models ?? []]));
  const providers = configs.map((one) => ({
    provider: createProvider({ ...one, timeouts: timeouts(config) }),
    config: one,
  }));
  for (const { provider } of providers) {
    const learned = remembered.state.get(provider.name)?.capabilities.responses;
    if (learned !== undefined) provider.learnResponses(learned);
  }
  const registry = createRegistry({
    providers,
    known,
    refreshIntervalMs: config.registry.refreshSeconds * 1000,
    recheckIntervalMs: config.registry.recheckSeconds * 1000,
    onListed: (name, models) => journal.listed(name, models),
    onUnavailable: (name, message) => {
      logger.warn(`provider ${name}: ${message}`);
      journal.unavailable(name, message);
    },
    onAvailable: (name) => journal.available(name),
  });

  // What may happen.
  const metrics = createMetrics();
  const resilience = new Map<string, Resilience>();
  for (const one of configs) {
    const { retry, circuitBreaker } = 'resilience' in one ? one.resilience : config;
    const isFailure = (status: number) => circuitBreaker.failureOnStatuses.includes(status);
    const onChange = (state: CircuitBreaker['state'], failures: number) => {
      logger.warn(`provider ${one.name}: circuit breaker ${state}`);
      journal.circuit(one.name, state, failures);
    };
    resilience.set(one.name, {
      retry,
      breaker: new CircuitBreaker({ ...circuitBreaker, isFailure }, () => performance.now(), onChange),
    });
  }
  const detached = new DetachedClients();
  const deps: ExchangeDependencies = {
    log,
    archive,
    dialects,
    detached,
    router: directRouter(registry),
    admission: everybodyAdmitted,
    pricing,
    resilienceOf(name) {
      const found = resilience.get(name);
      if (found === undefined) throw new Error(`no resilience policy for provider ${name}`);
      return found;
    },
    recordBeforeCall: config.log.durability === 'strict' ? 'durable' : 'written',
    capture: config.logging.capture,
    maxAnswerBytes: Math.min(MAX_ANSWER_BYTES, log.capabilities.maxEventBytes - ENVELOPE_BYTES),
    answerTimeoutMs: config.http.timeoutMs,
    newId: mintEventId,
    random: Math.random,
    wait: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
    ended: (summary) => metrics.observeExchange(summary),
    open,
    responseNotStored: (provider) => metrics.responseNotStored(provider),
    failed: onError,
  };
  const lifecycle: LifecycleDependencies = {
    log,
    archive,
    dialects,
    provider: (name) => registry.providerByNameOrType(name),
    providers: () => registry.providers,
    cancelRunning: (id) => detached.cancel(id),
  };

  // How it is asked.
  const exchanges = new OpenExchanges(config.http.stallTimeoutMs, () => detached.cut());
  let stopping = false;
  const app = createServer({
    bodyLimitBytes: config.server.bodyLimitBytes,
    maxHeaderBytes: config.server.maxHeaderBytes,
    headersTimeoutMs: config.server.requestTimeouts.headersMs,
    requestTimeoutMs: config.server.requestTimeouts.requestMs,
    isStopping: () => stopping,
    authenticator: createAuthenticator({ masterKey, userPathHeader: config.userPathHeader }),
    logError: (error, context) => logger.error({ err: error, ...context }, 'request failed'),
  });
  registerHealth(app, {
    log: () => (log.status().state === 'ok' ? 'ok' : 'down'),
    stopping: () => stopping,
  });
  registerModels(app, registry);
  registerModelEndpoints(app, {
    exchanges,
    forward: {
      capture: deps.capture,
      keeps: config.logging.keeps,
      limitBytes: config.server.bodyLimitBytes,
    },
    responses: { changes: (input) => responsesBodyChanges(input, { archive, log, findItem }) },
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  registerFiles(app, {
    log,
    tracked: createTrackedObjects(log),
    providers: {
      all: () => registry.providers,
      named: (name) => registry.providerByNameOrType(name),
      serving: async (selector) => (await registry.resolveOrRefresh(selector))?.provider,
    },
    exchanges,
    capture: deps.capture,
    limitBytes: config.server.bodyLimitBytes,
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  registerModelRoutes(app, {
    dialects: modelDialects,
    exchanges,
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  registerCountTokens(app, {
    models: registry,
    exchanges,
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  registerResponses(app, lifecycle, exchanges);
  registerConversations(app, { log, findItem, now });
  if (config.passthrough.enabled) {
    registerPassthrough(app, {
      exchanges,
      userPathHeader: config.userPathHeader,
      bodyLimitBytes: config.server.bodyLimitBytes,
      allowV1Alias: config.passthrough.v1Alias,
      isEnabled: (type) => config.passthrough.types?.includes(type) ?? providerType(type)?.passthrough === true,
      provider: (name) => registry.providerByNameOrType(name),
      run: (call, client) => runExchange(passthroughDialect(call, deps.capture), call.request, client, deps),
    });
  }
  if (config.admin.endpointsEnabled) {
    const live = createLiveLogs({
      log,
      inFlight: openView,
      enabled: config.liveLogs.enabled,
      heartbeatSeconds: config.liveLogs.heartbeatSeconds,
    });
    mountAdmin(app, (admin) => {
      live.register(admin);
    });
    metrics.watch({ liveClients: () => live.clients() });
  }
  metrics.watch({
    inFlight: () => exchanges.count,
    log: async () => ({
      available: log.status().state === 'ok',
      head: await log.head(),
      unsyncedBytes: log.status().unsyncedBytes,
    }),
    providers: () => providersSeen(registry, resilience),
    projections: () => projections.status(),
  });
  if (config.metrics.enabled) registerMetrics(app, metrics, config.metrics.endpoint);
  registerOpenApi(app);
  await app.listen({ host: config.server.host, port: config.server.port });

  const instance = streamName('gateway', mintEventId());
  const context = { actor: 'system' as const };
  await log.append([
    {
      stream: instance,
      events: [
        gatewayStarted.create(
          { version, node: process.version, durability: config.log.durability, pid: process.pid },
          context,
        ),
      ],
      expectedRevision: 'noStream',
    },
  ]);
  journal.configured(
    configs.map(({ name, type, baseUrl, apiKeys, models }) => ({
      name,
      type,
      baseUrl: withoutCredentials(baseUrl),
      hasApiKey: apiKeys.length > 0,
      configuredModels: models.map(({ id }) => id),
    })),
    new Map(
      [...remembered.state].flatMap(([name, { configuration }]) =>
        configuration === undefined ? [] : [[name, configuration]],
      ),
    ),
  );

  if (interrupted.length > 0) logger.info(`takes up ${interrupted.length} background responses again`);
  for (const told of interrupted) resume(told);

  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : config.server.port;
  return {
    url: `http://${config.server.host.includes(':') ? `[${config.server.host}]` : config.server.host}:${port}`,
    demo: demo !== undefined,
    async stop(reason) {
      stopping = true;
      stopListening(app.server);
      const cutExchanges = await exchanges.stop(config.server.drainSeconds * 1000);
      // What is still connected waits for nothing: listeners of the live tail, kept-alive and unused connections.
      app.server.closeAllConnections();
      await app.close();
      registry.close();
      await Promise.all(providers.map(({ provider }) => provider.close()));
      await demo?.close();
      await journal.settled();
      await open.stop();
      await saveViews().catch(onError);
      await stopLog(reason, cutExchanges);
    },
  };

  /** Views that cannot be saved cost time at the next start, and nothing else. */
  async function saveViews(): Promise<void> {
    openView.close();
    try {
      await openView.mark();
    } finally {
      await projections.close().finally(() => views.close());
    }
  }

  async function stopLog(reason: string, cutExchanges: number): Promise<void> {
    const events = [gatewayStopped.create({ reason, cutExchanges }, context)];
    try {
      await log.append([{ stream: instance, events, expectedRevision: 'exists' }]);
    } finally {
      await log.close();
    }
  }
}

/**
 * Takes no new connection and leaves the others alone. An HTTP server's own `close` also cuts connections on which an
 * answer has been ended but not yet been taken by the client.
 */
function stopListening(server: Server): void {
  NetServer.prototype.close.call(server);
}

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const demoProvider = {
  name: 'demo',
  type: 'simulated',
  apiKeys: [],
  models: [],
  modelsMode: 'fallback' as const,
  options: {},
  source: 'environment' as const,
};

function* providersSeen(registry: Registry, resilience: ReadonlyMap<string, Resilience>) {
  for (const { name, state } of registry.status()) {
    yield { name, up: state === 'available', circuit: resilience.get(name)?.breaker.state };
  }
}

function timeouts({ http }: Config) {
  return { headersMs: http.headersTimeoutMs, idleMs: http.streamIdleTimeoutMs };
}

function withoutCredentials(baseUrl: string): string {
  const url = new URL(baseUrl);
  url.username = '';
  url.password = '';
  return url.href;
}
