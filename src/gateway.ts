/** The whole program, wired by hand: reading this file shows every part and who knows whom. */
import { mkdirSync, readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { Server as NetServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { visibleModels } from './commands/access/visible-models.ts';
import { createReadAudit } from './commands/audit/audit-reads.ts';
import { itemFinder } from './commands/conversations/find-item.ts';
import { closeOpenExchanges, resumableRun } from './commands/exchange/background/close-open-exchanges.ts';
import { type CloseOpen, OpenRecords } from './commands/exchange/background/open-records.ts';
import { DetachedClients } from './commands/exchange/delivery/detached-client.ts';
import { createChatDialect } from './commands/exchange/dialects/chat/chat-dialect.ts';
import { embeddingsDialect } from './commands/exchange/dialects/embeddings/embeddings-dialect.ts';
import { messagesDialect } from './commands/exchange/dialects/messages/messages-dialect.ts';
import {
  passthroughDialect,
  refusedPassthrough,
} from './commands/exchange/dialects/passthrough/passthrough-dialect.ts';
import { responsesBodyChanges } from './commands/exchange/dialects/responses/forward-responses.ts';
import { createResponsesDialect } from './commands/exchange/dialects/responses/responses-dialect.ts';
import { type ExchangeDependencies, runExchange } from './commands/exchange/pipeline/exchange.ts';
import { resumeExchange } from './commands/exchange/pipeline/resume-exchange.ts';
import type { RecordedExchange } from './commands/exchange/record/recorded-exchange.ts';
import { RefusedRequests } from './commands/exchange/record/refused-requests.ts';
import { checkNamedFiles, checkNamedInBody, checkNamedInForm, withFilesChecked } from './commands/files/named-files.ts';
import { usableProviders } from './commands/files/usable-providers.ts';
import type { Caller } from './commands/model-request/caller.ts';
import { createSessions } from './commands/model-request/session.ts';
import { trackedObjects } from './commands/provider-objects/tracked.ts';
import { ProviderJournal } from './commands/providers/provider-journal.ts';
import type { ProviderRoster } from './commands/providers/provider-roster.ts';
import type { LifecycleDependencies } from './commands/response-lifecycle/lifecycle.ts';
import { archiveOf } from './commands/responses/archive.ts';
import type { Sight } from './commands/visibility.ts';
import type { Config } from './config/config.ts';
import { gatewayStarted, gatewayStopped } from './events/catalogue/gateway.ts';
import { streamName } from './events/event.ts';
import { mintEventId } from './events/event-id.ts';
import type { LogStatus } from './events/log-status.ts';
import { openLog } from './events/open-log.ts';
import { createLiveLogs } from './http/admin/live-logs.ts';
import { mountAdmin } from './http/admin/mount.ts';
import { registerPlugins } from './http/admin/plugins.ts';
import type { RecordQuery } from './http/clickhouse/reader-request.ts';
import { registerHealth } from './http/health.ts';
import { createMetrics, registerMetrics } from './http/metrics.ts';
import { OpenExchanges } from './http/open-exchanges.ts';
import { registerOpenApi } from './http/openapi.ts';
import { registerPassthrough } from './http/passthrough.ts';
import { createRequestRecorder } from './http/request-recorder.ts';
import { createRequestTags } from './http/request-tags.ts';
import { createServer } from './http/server.ts';
import { registerConversations } from './http/v1/conversations.ts';
import { type FilesOptions, registerFiles } from './http/v1/files.ts';
import { registerMessageBatches } from './http/v1/message-batches.ts';
import { registerCountTokens } from './http/v1/messages.ts';
import { registerModelEndpoints } from './http/v1/model-endpoints.ts';
import { registerModelRoutes } from './http/v1/model-routes.ts';
import { registerModels } from './http/v1/models.ts';
import { registerResponses } from './http/v1/responses.ts';
import { adminJournal } from './projections/admin-journal.ts';
import { openExchanges } from './projections/in-flight.ts';
import { createItemIndex } from './projections/items.ts';
import { exchangesLeftOpen, OpenExchangesView } from './projections/open-exchanges-view.ts';
import { providerCredentialsView } from './projections/provider-credentials.ts';
import { providerMemory } from './projections/provider-memory.ts';
import { createResponseRecords } from './projections/responses.ts';
import { createProjectionRunner } from './projections/runner.ts';
import { taggingView } from './projections/tagging.ts';
import { createTrackedRecords } from './projections/tracked-objects.ts';
import { openViewStore } from './projections/view-store.ts';
import { virtualModelsView } from './projections/virtual-models.ts';
import type { Registry } from './providers/registry.ts';
import { createStatelessRoutes } from './providers/stateless-routes.ts';
import { providerType } from './providers/types.ts';
import { controlAccess, knownAccess, registerAccessRoutes } from './wiring/access.ts';
import { type AskedAnalytics, createAnalytics } from './wiring/analytics.ts';
import { credentialsKey } from './wiring/credentials-key.ts';
import { gatewayDeferredUsage } from './wiring/deferred-usage.ts';
import { gatewayAdmin, switches } from './wiring/gateway-admin.ts';
import { createLimits } from './wiring/limits.ts';
import { adminPast } from './wiring/past.ts';
import { gatewayPricing } from './wiring/pricing.ts';
import { createGatewayProviders } from './wiring/providers.ts';
import { recordQueriesIn } from './wiring/recorded-queries.ts';
import { createVirtualModels } from './wiring/virtual-models.ts';

const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** More than an event needs beside its body. */
const ENVELOPE_BYTES = 1024 * 1024;

export interface Gateway {
  /** For example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly demo: boolean;
  /** Resolves when this query of a user of the ClickHouse interface is on disk in the log. */
  readonly recordQuery: RecordQuery;
  /**
   * Resolves when everything is on disk and nothing runs any more.
   * @throws LogUnavailable when the log cannot take the last events: what was acknowledged is there all the same
   */
  stop(reason: string): Promise<void>;
}

/** What runs beside the gateway, and is told of by it. */
export interface Beside {
  readonly analytics?: AskedAnalytics | undefined;
}

export async function startGateway(
  config: Config,
  masterKey: string | undefined,
  logger: Logger,
  { analytics }: Beside = {},
): Promise<Gateway> {
  const now = () => Math.floor(Date.now() / 1000);
  const onError = (error: unknown) => logger.error(error);

  // The log, and what is known from it.
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  const log = await openLog(config.log.url, {
    durability: config.log.durability,
    warn: (message, error) => logger.warn({ err: error }, message),
  });
  const views = openViewStore(join(config.dataDir, 'views.db'), { onDiscarded: (reason) => logger.warn(reason) });
  const projections = createProjectionRunner(log, views, { onError });
  const remembered = projections.run(providerMemory);
  const credentials = projections.run(providerCredentialsView);
  const tagging = projections.run(taggingView);
  const adminChanges = projections.run(adminJournal);
  const savedModels = projections.run(virtualModelsView);
  const knownKeys = knownAccess({ config, masterKey, log, projections, onError });
  const typeOf = (name: string) => registry.providerByNameOrType(name)?.type;
  const pricing = gatewayPricing({ config, log, projections, typeOf });
  const deferred = gatewayDeferredUsage({
    log,
    projections,
    pricing: pricing.prices,
    countTokens: (work, tokens) => limits.countTokens(work, tokens),
    onError,
  });
  const limits = createLimits({ config, log, views, projections, pricing: pricing.prices, deferred, onError });
  const leftOpen = openExchanges(await exchangesLeftOpen(log, views)).map(({ stream }) => stream);
  await Promise.all([
    remembered.caughtUp,
    credentials.caughtUp,
    tagging.caughtUp,
    knownKeys.caughtUp,
    savedModels.caughtUp,
    pricing.caughtUp,
  ]);
  const archive = archiveOf(createResponseRecords(log));
  const index = createItemIndex(log);
  const findItem = (sight: Sight) => itemFinder(sight, { log, archive, index });
  const journal = new ProviderJournal(log, onError);
  const tracked = trackedObjects(createTrackedRecords(log));
  const checkFiles = checkNamedFiles(tracked);
  const modelDialects = [
    createChatDialect({ enforceUsage: config.enforceUsage }),
    createResponsesDialect({
      archive,
      log,
      findItem,
      now,
      contextWindow: ({ provider, model }) => registry.find(`${provider.name}/${model}`)?.metadata?.context_window,
      learned: (name, supported) => journal.learnedResponses(name, supported),
    }),
    embeddingsDialect,
    messagesDialect,
  ].map((dialect) => withFilesChecked(dialect, checkFiles));
  const dialects = new Map(modelDialects.map((dialect) => [dialect.name, dialect]));
  const recorded = { log, dialects, archive, pricing: pricing.prices, keys: knownKeys.directory };
  const close: CloseOpen = (streams, why) => closeOpenExchanges(streams, recorded, why);
  const interrupted = await close(leftOpen, 'gateway_stopped');
  await limits.begin();
  if (leftOpen.length > 0) {
    logger.warn(`closed ${leftOpen.length - interrupted.length} exchanges that the last run left open`);
  }
  const resume = (told: RecordedExchange) => {
    const run = resumableRun(told, dialects, log, knownKeys.directory);
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
  const sealers = credentialsKey({ dataDir: config.dataDir, ...config.credentials });
  const openExchangesEnded = () => exchanges.thoseOpenEnded();
  const providers = await createGatewayProviders({
    config,
    stored: credentials,
    remembered,
    sealers,
    journal,
    logger,
    openExchangesEnded,
  });
  const { registry, roster } = providers;
  const { resilience } = roster;

  // What may happen.
  const warn = (message: string) => logger.warn(message);
  const virtualModels = createVirtualModels({ config, log, view: savedModels, registry, warn });
  const control = controlAccess(knownKeys, config, registry, virtualModels.policies);
  const { access } = control;
  const metrics = createMetrics();
  const detached = new DetachedClients();
  const sessions = createSessions(config.session);
  const tags = createRequestTags(config.tagging, () => tagging.state.headers);
  const router = virtualModels.router({
    access,
    admission: limits.admission,
    priceOf: (provider, model) => pricing.prices.priceOf(provider, model),
    resilience: () => resilience,
    random: Math.random,
  });
  const refused = new RefusedRequests({ log, alone: config.logging.refusalsPerMinute, onError });
  const deps: ExchangeDependencies = {
    log,
    refused,
    archive,
    dialects,
    detached,
    router,
    admission: limits.admission,
    pricing: pricing.prices,
    resilienceOf(name) {
      const found = resilience.get(name);
      if (found === undefined) throw new Error(`no resilience policy for provider ${name}`);
      return found;
    },
    recordBeforeCall: config.log.durability === 'strict' ? 'durable' : 'written',
    capture: config.logging.capture,
    maxAnswerBytes: Math.min(MAX_ANSWER_BYTES, log.capabilities.maxEventBytes - ENVELOPE_BYTES),
    newId: mintEventId,
    random: Math.random,
    wait: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => {}),
    ended: (summary) => metrics.observeExchange(summary),
    open,
    sessions,
    responseNotStored: (provider) => metrics.responseNotStored(provider),
    failed: onError,
  };
  const lifecycle: LifecycleDependencies = {
    log,
    archive,
    keys: knownKeys.directory,
    dialects,
    provider: (name) => registry.providerByNameOrType(name),
    providers: () => registry.providers,
    access,
    cancelRunning: (id) => detached.cancel(id),
    deferred: deferred.usage,
  };

  // How it is asked.
  const exchanges = new OpenExchanges(
    config.http.stallTimeoutMs,
    () => detached.cut(),
    { tags, sessions },
    config.server.maxConcurrentRequests,
  );
  let stopping = false;
  // What is held whole is recorded in one event.
  const { model, ...streamed } = config.server.bodyLimits;
  const bodyLimits = { ...streamed, model: Math.min(model, log.capabilities.maxEventBytes - ENVELOPE_BYTES) };
  const recorder = createRequestRecorder({
    log,
    refused,
    metrics,
    newId: mintEventId,
    modelRequestOf: (request) => exchanges.modelRequestOf(request),
  });
  const admitRequest = (caller: Caller) => limits.admission.admitRequest(caller);
  const app = createServer({
    bodyLimits,
    bodyMemoryBytes: config.server.maxBodyMemoryBytes,
    corsOrigins: config.server.corsOrigins,
    maxHeaderBytes: config.server.maxHeaderBytes,
    headersTimeoutMs: config.server.requestTimeouts.headersMs,
    requestTimeoutMs: config.server.requestTimeouts.requestMs,
    isStopping: () => stopping,
    authenticator: knownKeys.authenticator,
    admitRequest,
    recorder,
    logError: (error, context) => logger.error({ err: error, ...context }, 'request failed'),
  });
  registerHealth(app, {
    log: () => storageHealth(log.status()),
    streamIndex: () => (log.status().unindexedSegments === 0 ? 'ok' : 'rebuilding'),
    stopping: () => stopping,
    ...(analytics === undefined ? {} : { analytics: () => analytics.status().health }),
  });
  registerModels(app, virtualModels.listed(visibleModels(registry, access), access));
  registerModelEndpoints(app, {
    exchanges,
    forward: {
      capture: deps.capture,
      keeps: config.logging.keeps,
      checkFields: checkNamedInForm(tracked),
    },
    checkFiles,
    responses: { changes: (input) => responsesBodyChanges(input, { archive, log, findItem }) },
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  const audit = createReadAudit(log);
  const fileOptions = {
    log,
    audit,
    tracked,
    providersOf: usableProviders(registry, access, router),
    deferred: deferred.usage,
    forecast: limits.forecast,
    exchanges,
    capture: deps.capture,
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  } satisfies FilesOptions;
  registerFiles(app, fileOptions);
  registerMessageBatches(app, fileOptions);
  registerModelRoutes(app, {
    dialects: modelDialects,
    exchanges,
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  registerCountTokens(app, {
    router,
    admitRequest,
    exchanges,
    run: (dialect, request, client) => runExchange(dialect, request, client, deps),
  });
  const attend: OpenExchanges['attend'] = (reply, answer) => {
    recorder.answered(reply.request, 200);
    return exchanges.attend(reply, answer);
  };
  registerResponses(app, lifecycle, { attend }, audit);
  registerConversations(app, { log, findItem, now }, audit);
  const reports = createAnalytics({ config, analytics, audit, recorded });
  limits.registerUsage(app, reports.usageFigures);
  if (config.passthrough.enabled) {
    registerPassthrough(app, {
      exchanges,
      userPathHeader: config.userPathHeader,
      tags,
      limits: { whole: bodyLimits.model, streamed: bodyLimits.file },
      allowV1Alias: config.passthrough.v1Alias,
      isEnabled: (type) => config.passthrough.types?.includes(type) ?? providerType(type)?.passthrough === true,
      provider: (name) => registry.providerByNameOrType(name),
      mayUse: (caller, name) => access.allowsProvider(caller, name, 'all'),
      stateless: createStatelessRoutes(config.passthrough.statelessRoutes ?? []),
      checkBody: checkNamedInBody(tracked),
      run(call, client) {
        const dialect = 'refusal' in call ? refusedPassthrough(call) : passthroughDialect(call, deps.capture);
        return runExchange(dialect, call.request, client, deps);
      },
    });
  }
  if (config.admin.endpointsEnabled) {
    const live = createLiveLogs({
      log,
      audit,
      inFlight: openView,
      enabled: config.liveLogs.enabled,
      stillAdministers: (caller) => knownKeys.stillAdministers(caller),
      heartbeatSeconds: config.liveLogs.heartbeatSeconds,
      replayLimit: config.liveLogs.replayLimit,
    });
    const past = adminPast({
      log,
      journal: adminChanges,
      registry,
      known: knownKeys,
      control,
      virtualModels: { inForce: virtualModels.directory, declared: virtualModels.facts.declared },
    });
    const registerGateway = gatewayAdmin({
      config,
      log,
      providers,
      stored: credentials,
      remembered,
      tagging,
      sealers,
      models: {
        enabledByDefault: config.models.enabledByDefault,
        allows: (asker, provider, model) => access.allows(asker, provider, model),
        policy: (provider, model) => virtualModels.directory.policyOf(provider, model),
      },
      flags: () => switches(config),
      views: [savedModels, remembered, credentials, tagging, knownKeys.keys, knownKeys.users],
    });
    mountAdmin(app, (admin) => {
      live.register(admin);
      registerGateway(admin);
      registerPlugins(admin, config.pluginsEnabled || config.guardrailsEnabled);
      virtualModels.register(admin, past.asOf);
      pricing.register(admin, { asOf: past.asOf, registry, virtualModels });
      registerAccessRoutes(admin, knownKeys, control, log, past.policies);
      past.register(admin);
      limits.registerAdmin(admin, {
        asOf: past.asOf,
        keys: knownKeys.directory,
        isProvider: control.isProvider,
      });
      reports.register(admin);
    });
    metrics.watch({ liveClients: () => live.clients() });
  }
  metrics.watch({
    inFlight: () => exchanges.count,
    refused: () => new Map([...limits.refused, ['overloaded', exchanges.overloads]]),
    log: async () => ({
      available: log.status().state === 'ok',
      head: await log.head(),
      unsyncedBytes: log.status().unsyncedBytes,
      degraded: log.status().degraded !== undefined,
      failedRotations: log.status().failedRotations,
    }),
    providers: () => providersSeen(registry, resilience),
    projections: () => projections.status(),
    analytics: () => analytics?.status(),
  });
  if (config.metrics.enabled) {
    registerMetrics(app, metrics, { path: config.metrics.endpoint, isPublic: config.metrics.isPublic });
  }
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
  roster.announce();
  deferred.follow({
    archive,
    dialects,
    keys: knownKeys.directory,
    provider: (name) => registry.providerByNameOrType(name),
  });

  if (interrupted.length > 0) logger.info(`takes up ${interrupted.length} background responses again`);
  for (const told of interrupted) resume(told);

  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : config.server.port;
  return {
    url: `http://${config.server.host.includes(':') ? `[${config.server.host}]` : config.server.host}:${port}`,
    demo: providers.demo(),
    recordQuery: recordQueriesIn(audit),
    async stop(reason) {
      stopping = true;
      stopListening(app.server);
      const cutExchanges = await exchanges.stop(config.server.drainSeconds * 1000);
      // What is still connected waits for nothing: listeners of the live tail, kept-alive and unused connections.
      app.server.closeAllConnections();
      await app.close();
      await reports.close();
      await deferred.stop();
      await providers.close();
      await journal.settled();
      await knownKeys.stop();
      await refused.stop();
      await limits.stop().catch(onError);
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

function storageHealth({ state, degraded }: LogStatus): 'ok' | 'degraded' | 'down' {
  if (state !== 'ok') return 'down';
  return degraded === undefined ? 'ok' : 'degraded';
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

function* providersSeen(registry: Registry, resilience: ProviderRoster['resilience']) {
  for (const { name, state } of registry.status()) {
    yield { name, up: state === 'available', circuit: resilience.get(name)?.breaker.state };
  }
}
