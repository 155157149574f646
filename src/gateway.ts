/**
 * The architecture of the gateway: every component, in the order in which it is built, with its inputs. The event
 * log comes first; all state is read from it; the exchange pipeline connects routing, limits and providers; HTTP comes
 * last. Components are stopped in the opposite direction, from HTTP to the log.
 */
import type { Logger } from 'pino';
import { createReadAudit } from './commands/audit/audit-reads.ts';
import { guardedEndpoints } from './commands/exchange/guarding/guarded-endpoints.ts';
import { checkSent } from './commands/files/named-objects.ts';
import { ProviderJournal } from './commands/providers/active-providers.ts';
import type { Config } from './config/config.ts';
import { certificateWarnings } from './config/server-settings.ts';
import { parsePosition } from './events/event.ts';
import type { LogUnavailable } from './events/log.ts';
import { registerOpenApi } from './http/api/openapi.ts';
import type { RecordQuery } from './http/clickhouse/reader-request.ts';
import { type ConnectionSetup, connectionSetup } from './http/connection-setup.ts';
import type { MetricFigures } from './http/metric-figures.ts';
import { createMetrics } from './http/metrics.ts';
import { OpenSockets } from './http/open-sockets.ts';
import { readOpenExchanges } from './projections/in-flight.ts';
import { proxiesOf } from './providers/proxies.ts';
import { startTelemetry } from './telemetry/telemetry.ts';
import { controlAccess, knownAccess } from './wiring/access.ts';
import { registerAdminRoutes } from './wiring/admin/routes.ts';
import { type AnalyticsQueries, createAnalytics, recordQueriesIn } from './wiring/analytics/reports.ts';
import { gatewayDeferredUsage } from './wiring/budgets.ts';
import { credentialsKey, sharedSecrets } from './wiring/credentials-key.ts';
import { modelDialects } from './wiring/dialects.ts';
import { createModelRequests } from './wiring/exchange.ts';
import { gatewayTools } from './wiring/gateway-tools.ts';
import { createGuardrailReplay } from './wiring/guardrail-replay.ts';
import { createGuardrailServices } from './wiring/guardrail-types.ts';
import { realtimeSessions, registerClientRoutes, registerPassthroughRoutes } from './wiring/http/client-routes.ts';
import { type DashboardState, registerDashboardRoutes } from './wiring/http/dashboard.ts';
import { registerMetricsRoute } from './wiring/http/metrics.ts';
import { createGatewayServer } from './wiring/http/server.ts';
import { answerWhileStarting, type Starting } from './wiring/http/starting.ts';
import { createLimits } from './wiring/limits.ts';
import { errorReporter, openGatewayLog } from './wiring/log/event-log.ts';
import { gatewayLogOf, takeGatewayLease } from './wiring/log/gateways.ts';
import { closeLastRun, trackOpenExchanges } from './wiring/log/open-exchanges.ts';
import { openGatewayViews, storedObjects } from './wiring/log/views.ts';
import { createMcp } from './wiring/mcp.ts';
import { createMcpServers } from './wiring/mcp-servers.ts';
import { createPlugins } from './wiring/plugins.ts';
import { gatewayJobs, gatewayPricing } from './wiring/pricing.ts';
import { createGatewayProviders } from './wiring/providers.ts';
import { type Configure, createConfigure, type Reload } from './wiring/reload.ts';
import { createResponseCache, createSemanticCache } from './wiring/response-cache.ts';
import { builtInRouteStrategies, createVirtualModels } from './wiring/virtual-models.ts';
import type { WorkerPlace } from './wiring/workers/messages.ts';
import { createWorkflows } from './wiring/workflows.ts';

export interface Gateway {
  /** For example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly demo: boolean;
  readonly dashboard: DashboardState;
  /** @param begin called when this gateway writes into the ClickHouse server, which one gateway does; with its epoch where others share the log */
  whenAnalyticsWriter(begin: (epoch: number | undefined) => void): void;
  /** Resolves when this query by a user of the ClickHouse interface is on disk in the log. */
  readonly recordQuery: RecordQuery;
  /** Its metrics. */
  figures(): Promise<MetricFigures>;
  /** Resolves when other gateways on the log have taken over from this one: it can only stop, and start anew. */
  readonly leaseLost: Promise<undefined>;
  /**
   * Resolves when all acknowledged events are on disk and all work has ended.
   * @returns why the stop itself could not be recorded: the disk is full, or the engine of the log cannot be reached
   * @throws LogUnavailable when acknowledged events may not be on disk
   */
  stop(reason: string): Promise<LogUnavailable | undefined>;
  /** Puts another configuration in force, as far as it can be changed at run time. @throws Error; nothing has changed then */
  readonly configure: Configure;
}

export async function startGateway(
  config: Config,
  masterKey: string | undefined,
  logger: Logger,
  companions: GatewayCompanions = {},
): Promise<Gateway> {
  const setup = await connectionSetup(config.server, (problem) => {
    if (problem !== undefined) {
      logger.warn({ err: problem }, 'the files of TLS have changed and cannot be used: the earlier ones stay in force');
      return;
    }
    logger.info('the files of TLS have changed and are in force');
    for (const warning of certificateWarnings(config.server.tls)) logger.warn(warning);
  });
  const starting = companions.worker === undefined ? await answerWhileStarting(config, logger, setup) : undefined;
  try {
    return await startComponents(config, masterKey, logger, { ...companions, setup, starting });
  } catch (error) {
    starting?.close();
    setup.close();
    throw error;
  }
}

interface StartedWith extends GatewayCompanions {
  readonly setup: ConnectionSetup;
  /** Has the port until the gateway can serve requests. */
  readonly starting: Starting | undefined;
}

async function startComponents(
  given: Config,
  masterKey: string | undefined,
  logger: Logger,
  { analytics, dashboardFolder, declares = true, worker, signal, setup, starting, reload = notReloadable }: StartedWith,
): Promise<Gateway> {
  // A reload changes it.
  const config = { ...given };
  const warn = (message: string) => logger.warn(message);
  let stopping = false;
  const secrets = sharedSecrets(config, masterKey);

  // The event log, and the state built from it.
  const opened = await openGatewayLog(config, logger, { socketPath: worker?.socketPath, signal, ...starting?.opening });
  const log = gatewayLogOf(opened, config.log);
  const isShared = log !== opened;
  const onError = errorReporter(logger, log);
  const views = openGatewayViews({ config, log, logger, worker: worker?.number });
  const { projections } = views;
  starting?.readsLog(log, projections);
  const leftOpen = readOpenExchanges(log, views.store, projections);
  const sealers = credentialsKey({ dataDir: config.dataDir, ...config.credentials });
  const knownKeys = knownAccess({
    config,
    masterKey,
    sealers,
    log,
    projections,
    isCurrent: () => lease.isCurrent(),
    onError,
  });
  const provider = (name: string) => providers.registry.providerByNameOrType(name);
  const pricing = gatewayPricing({ config, log, projections, typeOf: (name) => provider(name)?.type });
  const deferred = gatewayDeferredUsage({
    log,
    projections,
    pricing: pricing.prices,
    countTokens: (work, tokens) => limits.countTokens(work, tokens),
    onError,
  });
  const limits = createLimits({
    config,
    declares,
    log,
    isShared,
    gateway: () => lease.gateway,
    views: views.store,
    projections,
    pricing: pricing.prices,
    longestAnswer({ provider, model }) {
      const { max_output_tokens: output, context_window: context } =
        providers.registry.find(`${provider.name}/${model}`)?.metadata ?? {};
      return { output, context };
    },
    deferred,
    onError,
  });
  const lease = await takeGatewayLease(log, { config, worker, opened, projections, secrets, logger, onError });
  const jobs = await gatewayJobs({ log, lease, isShared, projections, onError });
  await Promise.all([views.caughtUp(), knownKeys.caughtUp, pricing.caughtUp]);
  await projections.whenAllProcessed(await log.head());

  // Recorded exchanges: those left open by the last run are ended before new ones begin.
  const stored = storedObjects(log, sealers);
  const journal = new ProviderJournal(log, onError);
  const dialects = modelDialects({
    config,
    log,
    stored,
    contextWindow: (target) =>
      providers.registry.find(`${target.provider.name}/${target.model}`)?.metadata?.context_window,
    learned: (name, supported) => journal.learnedResponses(name, supported),
    toolLoop: {
      log,
      sealers,
      tools: gatewayTools(config, () => ({ servers: mcpServers.servers, upstreams: mcp.upstreams })),
      callModel: (request, client, target) => requests.callModel(request, client, target),
    },
  });
  const { archive } = stored;
  const recorded = {
    ...{ log, dialects, archive, pricing: pricing.prices, keys: knownKeys.directory },
    guardedEndpoints: guardedEndpoints(dialects, { findItem: stored.findItem }),
  };
  const interrupted = await closeLastRun(lease.gateway, await leftOpen(), recorded, logger);
  await limits.begin();
  const open = trackOpenExchanges({
    log,
    lease,
    isShared,
    recorded,
    views,
    onError,
    resume: (run) => {
      if (!stopping) requests.resume(run);
    },
  });

  // Providers, and the models that a caller can reach.
  const proxyOf = proxiesOf(config.proxies);
  const providers = await createGatewayProviders({
    config,
    proxyOf,
    stored: views.credentials,
    remembered: views.providerMemory,
    sealers,
    journal,
    logger,
    openExchangesEnded: () => requests.exchanges.whenOpenEnded(),
    mayCall: lease.isCurrent,
  });
  lease.onConfigurationChanged(() => providers.follow().catch(onError));
  // Changes between the creation of the providers and this moment.
  await providers.follow();
  const { registry } = providers;
  const { resilience } = providers.active;
  const routeStrategies = builtInRouteStrategies();
  const plugins = await createPlugins({ config, log, routeStrategies, logger });
  const virtualModels = createVirtualModels({
    config,
    log,
    view: views.virtualModels,
    registry,
    routeStrategies,
    warn,
  });
  const control = controlAccess(knownKeys, config, registry, virtualModels.policies);
  const { access } = control;
  const router = virtualModels.router({
    access,
    admission: limits.admission,
    priceOf: (provider, model) => pricing.prices.priceOf(provider, model),
    resilience: () => resilience,
    random: Math.random,
  });

  const guardrailServices = createGuardrailServices({
    auxiliary: () => requests.auxiliary,
    allowsLocalServers: config.registry.allowLocalProviders,
    proxyOf,
  });
  const workflows = createWorkflows({
    config,
    log,
    workflows: views.workflows,
    guardrails: views.guardrails,
    types: plugins.types,
    pluginsFailed: plugins.failed,
    pluginRows: plugins.rows,
    routeStrategies,
    servicesOf: guardrailServices.servicesOf,
    sealers,
    registry,
  });
  if (declares) await workflows.begin();

  const guardrailReplay = createGuardrailReplay({
    config,
    recorded,
    workflows,
    types: plugins.types,
    sealers,
    registry,
    prices: pricing.prices,
    records: views.guardrailReplays,
    ...{ lease, isShared },
    failed: onError,
  });

  // The exchange pipeline: every model request runs through it.
  const metrics = createMetrics();
  plugins.register(metrics);
  const telemetry =
    config.otel && (await startTelemetry({ config: config.otel, instance: lease.gateway, logger, proxyOf, metrics }));
  const semanticCache =
    config.semanticCache &&
    createSemanticCache({
      config: config.semanticCache,
      embeddings: () => requests.embeddings,
      proxyOf,
      failed(operation, error) {
        metrics.semanticCacheFailed(operation);
        logger.warn(`semantic cache, ${operation}: ${error instanceof Error ? error.message : String(error)}`);
      },
    });
  const responseCache = createResponseCache({
    ...{ config, log, projections, dialects, archive },
    semantic: semanticCache,
    isShared,
    failed: onError,
  });
  await responseCache?.begun;
  const requests = createModelRequests({
    config,
    log,
    gateway: lease.gateway,
    cache: responseCache?.cache,
    archive,
    dialects,
    guardedEndpoints: recorded.guardedEndpoints,
    requestPlugins: plugins.requestPlugins((call) => requests.auxiliary.call(call)),
    completed: plugins.completed,
    router,
    admission: limits.admission,
    checkSent: checkSent(stored),
    pricing: pricing.prices,
    resilience,
    tagging: views.tagging,
    clients: knownKeys.clients,
    policyOf: workflows.policyOf,
    policyAgain: workflows.policyAgain,
    open: open.records,
    metrics,
    telemetry,
    failed: onError,
  });
  const { exchanges } = requests;
  const mcpServers = createMcpServers({ config, log, views, sealers, proxyOf });
  const mcp = createMcp({
    ...{ config, log, views, requests, metrics, proxyOf },
    gateway: lease.gateway,
    servers: mcpServers.servers,
    admission: limits.admission,
    policyOf: workflows.policyOf,
    open: open.records,
    failed: onError,
  });
  lease.onCancelled((id) => void requests.detached.cancel(id));

  // HTTP.
  const server = createGatewayServer({
    config,
    log,
    logger,
    metrics,
    requests,
    setup,
    authenticator: knownKeys.authenticator,
    isCurrent: () => lease.isCurrent(),
    admitRequest: (caller) => limits.admission.admitRequest(caller),
    analytics,
    telemetry,
    workers: worker?.workers,
    isStopping: () => stopping,
  });
  const { app, recorder } = server;
  const audit = createReadAudit(log);
  const reports = createAnalytics({
    config,
    analytics,
    audit,
    recorded,
    keys: { byId: (id) => knownKeys.keys.state.byId.get(id) },
  });
  const sockets = new OpenSockets(app, { exchanges, recorder, limits: config.server.websockets });
  const { authenticator } = knownKeys;
  const ofSessions = { config, recorded, stored, access, limits, requests, recorder, authenticator, sockets, registry };
  const realtime = realtimeSessions(ofSessions, sealers, masterKey);
  registerClientRoutes(app, {
    sealers,
    ...ofSessions,
    realtime,
    audit,
    virtualModels,
    router,
    policyOf: workflows.policyOf,
    deferred,
    hasOtherGateways: () => lease.hasOthers(),
    whenCacheProcessed:
      responseCache === undefined ? undefined : (position) => responseCache.cache.whenIndexed(position),
  });
  limits.registerUsage(app, reports.usageFigures, lease.readToPresent);
  registerPassthroughRoutes(app, { config, log, registry, access, limits, requests, realtime });
  const { clients } = knownKeys;
  const admitRequest: typeof limits.admission.admitRequest = (caller) => limits.admission.admitRequest(caller);
  mcp.register(app, { recorder, authenticator, clients, admitRequest }, worker);
  registerAdminRoutes(app, {
    config,
    log,
    views,
    openExchanges: open.view,
    audit,
    knownKeys,
    control,
    providers,
    sealers,
    virtualModels,
    workflows,
    guardrailReplay,
    pricing,
    jobs,
    limits,
    reports,
    analytics,
    metrics,
    purgeCache: responseCache?.purge,
    mcp: {
      servers: mcpServers,
      upstreams: mcp.upstreams,
      acceptTool: (...given) => mcp.upstreams.acceptTool(...given),
      modelRequestOf: (request) => exchanges.modelRequestOf(request),
      failed: onError,
    },
    gateways: lease.gateways,
    reload,
    readToPresent: lease.readToPresent,
  });
  const configure = createConfigure({
    config,
    workflows,
    others: [
      virtualModels,
      control,
      pricing,
      providers,
      mcpServers,
      { prepareReload: (next) => () => requests.follow(next) },
    ],
    record: lease.recordReload,
  });
  lease.onReloaded(() => void reload({ origin: 'gateway', context: { actor: 'system' } }));
  const dashboard = registerDashboardRoutes(app, { config, folder: dashboardFolder, logger });
  registerMetricsRoute(app, {
    config,
    metrics,
    log,
    projections,
    exchanges,
    limits,
    providers,
    virtualModels,
    analytics,
    wholeService: worker?.scrape,
  });
  registerOpenApi(app);
  await lease.knownToOthers();
  const url = await server.listen(worker?.connections ?? (await starting?.server())?.listener);

  // Work that starts once requests are accepted.
  await lease.recordStart();
  providers.active.announce();
  jobs.whenFree('deferred-work', (held) =>
    deferred.follow(held, { archive, dialects, keys: knownKeys.directory, provider }),
  );
  if (interrupted.length > 0) logger.info(`resumes ${interrupted.length} background responses`);
  for (const one of interrupted) open.resume(one);
  open.inherited.begin();

  return {
    url,
    configure,
    demo: providers.demo(),
    dashboard,
    whenAnalyticsWriter: (begin) =>
      jobs.whenFree('analytics', ({ epoch }) => begin(epoch === undefined ? undefined : parsePosition(epoch))),
    recordQuery: recordQueriesIn(audit),
    figures: () => metrics.figures(),
    leaseLost: lease.lost,
    async stop(reason) {
      stopping = true;
      await server.stopListening();
      const cutExchanges = await exchanges.stop(lease.isLost ? 0 : config.server.drainSeconds * 1000);
      await plugins.stop();
      await telemetry?.stop();
      await guardrailServices.close();
      await semanticCache?.close();
      await server.close();
      await mcp.close();
      await mcpServers.close();
      setup.close();
      await reports.close();
      await guardrailReplay.stop();
      jobs.stop();
      await deferred.stop();
      await providers.close();
      await journal.settled();
      await knownKeys.stop();
      await requests.refused.stop();
      await limits.stop().catch(onError);
      await open.inherited.stop();
      await open.records.stop();
      // Views that cannot be saved only make the next start slower.
      await open.saveView().catch(onError);
      await views.close().catch(onError);
      return await lease.end(reason, cutExchanges);
    },
  };
}

const notReloadable: Reload = async () => ({ problems: ['this gateway was started without files'] });

/** What a gateway has beside its configuration. */
interface GatewayCompanions {
  /** A process beside the gateway, whose queries and state the gateway shows. */
  readonly analytics?: AnalyticsQueries | undefined;
  /** Folder of the built dashboard; default: that of this project. */
  readonly dashboardFolder?: string | undefined;
  /** False when this gateway replaces one of this process: budgets, limits and the default workflow are recorded already. */
  readonly declares?: boolean | undefined;
  /** The place of this process in a service with several workers. */
  readonly worker?: WorkerPlace | undefined;
  /** Reads the configuration of the whole service again. */
  readonly reload?: Reload | undefined;
  /** Ends a start that waits for the engine of the log: `startGateway` then rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}
