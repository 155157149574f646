/** The admin API under all its prefixes: each component registers its own routes. */
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import { addressesCheck, publicUrl } from '../../commands/credentials/credential-fields.ts';
import type { SealerSource } from '../../commands/credentials/sealed-credentials.ts';
import type { RouteStrategies } from '../../commands/virtual-models/virtual-model.ts';
import type { Config } from '../../config/config.ts';
import { gatewayVersion } from '../../config/gateway-version.ts';
import { strategies } from '../../events/catalogue/workflow.ts';
import { formatVersion } from '../../events/embedded/frame.ts';
import { segmentLister } from '../../events/embedded/stat-log.ts';
import { formatPosition } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { directoryOf } from '../../events/open-log.ts';
import { createAsOf } from '../../http/admin/as-of.ts';
import { registerExplain } from '../../http/admin/explain.ts';
import { type GatewaysListed, registerGateways } from '../../http/admin/gateways.ts';
import { registerHistory } from '../../http/admin/history.ts';
import { createLiveLogs } from '../../http/admin/live/logs.ts';
import { type LogFacts, registerLog } from '../../http/admin/log.ts';
import { registerAdminModels } from '../../http/admin/models/models.ts';
import { registerProviderCredentials } from '../../http/admin/models/provider-credentials.ts';
import { type ProviderFacts, registerProvidersStatus } from '../../http/admin/models/providers-status.ts';
import { mountAdmin } from '../../http/admin/mount.ts';
import { type Purge, registerCachePurge } from '../../http/admin/reports/cache.ts';
import { createRefresh, type RefreshPlan, registerRuntime, type StepOutcome } from '../../http/admin/runtime.ts';
import { registerTagging } from '../../http/admin/tagging.ts';
import { type AnalyticsFacts, registerViews } from '../../http/admin/views.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { Metrics } from '../../http/metrics.ts';
import type { ReadToPresent } from '../../http/server.ts';
import type { OpenExchangesView } from '../../projections/in-flight.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { aboutUnsavedViews, savedViews } from '../../projections/saved-views.ts';
import { type AccessControl, createPoliciesAsOf, type KnownAccess, registerAccessRoutes } from '../access.ts';
import type { Analytics, AnalyticsQueries } from '../analytics/reports.ts';
import type { GuardrailReplayWiring } from '../guardrail-replay.ts';
import type { Limits } from '../limits.ts';
import type { GatewayViews } from '../log/views.ts';
import type { McpRoutes } from '../mcp-servers.ts';
import type { GatewayJobs, GatewayPricing } from '../pricing.ts';
import type { GatewayProviders } from '../providers.ts';
import type { Reload } from '../reload.ts';
import type { VirtualModels } from '../virtual-models.ts';
import type { Workflows } from '../workflows.ts';

export interface AdminRoutes {
  readonly config: Config;
  readonly log: EventLog;
  readonly views: GatewayViews;
  readonly openExchanges: OpenExchangesView;
  readonly audit: ReadAudit;
  readonly knownKeys: KnownAccess;
  readonly control: AccessControl;
  readonly providers: GatewayProviders;
  readonly sealers: SealerSource;
  readonly virtualModels: VirtualModels;
  readonly workflows: Workflows;
  readonly guardrailReplay: GuardrailReplayWiring;
  readonly pricing: GatewayPricing;
  readonly jobs: GatewayJobs;
  readonly limits: Limits;
  readonly reports: Analytics;
  /** Undefined while analytics is off. */
  readonly analytics: AnalyticsQueries | undefined;
  readonly metrics: Metrics;
  readonly gateways: GatewaysListed['gateways'];
  readonly reload: Reload;
  /** Awaited before reads; undefined where no other gateway can use the log. */
  readonly readToPresent: ReadToPresent | undefined;
  /** Undefined while the gateway has no response cache. */
  readonly purgeCache: Purge | undefined;
  readonly mcp: McpRoutes;
}

/** Does nothing while the admin API is off. */
export function registerAdminRoutes(app: Routes, routes: AdminRoutes): void {
  const { config, log, knownKeys, control, virtualModels, pricing, limits, reports, mcp } = routes;
  if (!config.admin.endpointsEnabled) return;
  const { registry } = routes.providers;
  const live = createLiveLogs({
    log,
    audit: routes.audit,
    inFlight: routes.openExchanges,
    enabled: config.liveLogs.enabled,
    isStillAdministrator: knownKeys.isStillAdministrator,
    heartbeatSeconds: config.liveLogs.heartbeatSeconds,
    replayLimit: config.liveLogs.replayLimit,
  });
  const history = adminHistory(routes);
  const registerGateway = gatewayAdmin(routes);
  const registerLogAndViews = logAdmin(routes);
  const register = (admin: Routes) => {
    live.register(admin);
    registerGateway(admin);
    routes.workflows.register(admin, history.asOf);
    routes.guardrailReplay.register(admin);
    virtualModels.register(admin, history.asOf);
    pricing.register(admin, { asOf: history.asOf, registry, virtualModels, jobs: routes.jobs });
    registerAccessRoutes(admin, knownKeys, control, log, history.policies);
    history.register(admin);
    limits.registerAdmin(admin, { asOf: history.asOf, keys: knownKeys.directory, isProvider: control.isProvider });
    reports.register(admin);
    registerCachePurge(admin, routes.purgeCache);
    mcp.servers.register(admin, { ...mcp, asOf: history.asOf });
    registerLogAndViews(admin);
    registerGateways(admin, { gateways: routes.gateways, head: () => log.status().head });
  };
  mountAdmin(app, register, routes.readToPresent);
  mcp.servers.registerCallback(app, mcp);
  routes.metrics.watch({ liveClients: () => live.clients() });
}

/** The admin routes that read earlier states: history, lists at another time (`as_of`), and the explanation of a decision. */
function adminHistory({
  log,
  views,
  providers: { registry },
  knownKeys,
  control,
  workflows,
  virtualModels,
}: AdminRoutes) {
  const journal = views.adminJournal;
  const asOf = createAsOf({ log, journal, now: Date.now });
  const policies = createPoliciesAsOf({ asOf, registry, control, virtualModels });
  return {
    asOf,
    policies,
    register(admin: Routes) {
      registerHistory(admin, { log, journal });
      registerExplain(admin, {
        log,
        now: {
          get keys() {
            return knownKeys.keys.state;
          },
          lists: control.lists,
          virtualModels: virtualModels.directory,
        },
        asOf: policies,
        workflowsAt: async (given) => (await workflows.at(given, asOf)).directory,
        policies: control.policies,
        resolve: (model, provider) => registry.resolve(model, provider),
      });
    },
  };
}

/**
 * The admin routes for the gateway itself: its providers, models, settings and tags.
 * @returns a function that registers the routes; called once for each prefix of the API
 */
function gatewayAdmin(routes: AdminRoutes): (admin: Routes) => void {
  const { config, log, providers, views, sealers, control, virtualModels, pricing } = routes;
  const { registry } = providers;
  // One refresh at a time, across all prefixes of the API.
  const refresh = createRefresh(refreshPlan(routes));
  return (admin) => {
    registerProvidersStatus(admin, () => providerFacts(routes));
    registerProviderCredentials(admin, {
      log,
      stored: views.credentials,
      sealers,
      checkAddresses: config.registry.allowLocalProviders ? async () => {} : addressesCheck(),
      get managed() {
        return config.providers;
      },
      follow: () => providers.follow(),
      problems: () => providers.problems(),
    });
    registerAdminModels(admin, {
      enabledByDefault: config.models.enabledByDefault,
      allows: (asker, provider, model) => control.access.allows(asker, provider, model),
      policy: (provider, model) => virtualModels.directory.policyOf(provider, model),
      price: (provider, model) => pricing.prices.shown(provider, model),
      list: () => registry.list(),
    });
    const flags = () => switches(config, virtualModels.routeStrategies);
    registerRuntime(admin, {
      flags,
      refresh,
      reload: routes.reload,
      version: gatewayVersion,
      logFormat: formatVersion,
    });
    registerTagging(admin, { log, set: views.tagging, managed: config.tagging });
  };
}

function providerFacts({ providers, views }: AdminRoutes): ProviderFacts[] {
  const { active, registry } = providers;
  const listings = new Map(registry.status().map((status) => [status.name, status]));
  const inForce = active.configs.map(({ name, type, baseUrl, options, models, resilience }) => ({
    name,
    type,
    baseUrl: publicUrl(baseUrl),
    apiVersion: options['apiVersion'],
    configuredModels: models.map(({ id }) => id),
    resilience,
    listing: listings.get(name),
    circuit: active.resilience.get(name)?.breakers.state,
    rememberedListedAt: views.providerMemory.state.get(name)?.modelsListedAt,
    problem: undefined,
  }));
  const broken = [...providers.problems()].map(([name, problem]) => {
    const { type = '', models = [] } = views.credentials.state.byKey.get(name)?.value ?? {};
    const unknown = { baseUrl: undefined, apiVersion: undefined, resilience: undefined, listing: undefined };
    return {
      name,
      type,
      ...unknown,
      circuit: undefined,
      configuredModels: models,
      rememberedListedAt: undefined,
      problem,
    };
  });
  return [...inForce, ...broken];
}

function refreshPlan({ providers, views, knownKeys }: AdminRoutes): RefreshPlan {
  const { registry } = providers;
  const checked: readonly RunningProjection<unknown>[] = [
    ...[views.virtualModels, views.providerMemory, views.credentials, views.tagging],
    ...[knownKeys.keys, knownKeys.users],
  ];
  // A view follows the log by itself; a refresh only checks that it has not stopped.
  const fromLog = async (view: RunningProjection<unknown>): Promise<StepOutcome> => {
    const { phase, error } = view.status();
    if (phase === 'stopped') throw new Error(error ?? 'it no longer follows the log');
    return { status: phase === 'live' ? 'ok' : 'partial' };
  };
  return {
    steps: [
      ...checked.map((view) => ({ name: view.name.replaceAll('-', '_'), run: () => fromLog(view) })),
      {
        name: 'providers',
        async run() {
          await providers.follow();
          await registry.refresh();
          const failed = registry.status().filter(({ lastError }) => lastError !== undefined);
          const names = [...failed.map(({ name }) => name), ...providers.problems().keys()];
          const all = registry.status().length + providers.problems().size;
          if (names.length === 0) return { status: 'ok' };
          const message = `Not all have answered: ${names.join(', ')}.`;
          return { status: names.length === all ? 'failed' : 'partial', message };
        },
      },
      { name: 'model_list', run: async () => ({ status: registry.list().length > 0 ? 'ok' : 'failed' }) },
    ],
    counts: () => ({ models: registry.list().length, providers: registry.providers.length }),
  };
}

/** The settings by name, and whether they are on. */
function switches(
  config: Config,
  routeStrategies: Pick<RouteStrategies, 'names'>,
): Readonly<Record<string, string | boolean | undefined>> {
  const withoutPlugin = strategies.filter((one) => one !== 'plugin');
  const selectable = [...withoutPlugin, ...routeStrategies.names().map((name) => `plugin:${name}`)];
  return {
    LOGGING_ENABLED: config.logging.enabled,
    ANALYTICS_ENABLED: config.analytics.enabled,
    LOGGING_RETENTION_DAYS: String(config.analytics.retention.audit),
    USAGE_ENABLED: config.usageEnabled,
    USAGE_PRICING_RECALCULATION_ENABLED: config.pricingRecalculationEnabled,
    BUDGETS_ENABLED: config.budgets.enabled,
    RATE_LIMITS_ENABLED: config.rateLimits.enabled,
    GUARDRAILS_ENABLED: config.guardrailsEnabled,
    PLUGINS_ENABLED: config.pluginsEnabled,
    CACHE_ENABLED: config.responseCache.enabled && config.usageEnabled,
    SEMANTIC_CACHE_ENABLED: config.semanticCache !== undefined,
    MCP_ENABLED: config.mcp.enabled,
    FAILOVER_ENABLED: config.failover.enabled,
    ADMIN_UI_ENABLED: config.admin.uiEnabled,
    DASHBOARD_LIVE_LOGS_ENABLED: config.liveLogs.enabled,
    USER_PATH_HEADER: config.userPathHeaderEnabled ? config.userPathHeader : undefined,
    VIRTUAL_MODEL_STRATEGIES: selectable.join(','),
  };
}

/**
 * The admin routes for the event log and the read models.
 * @returns a function that registers the routes; called once for each prefix of the API
 */
function logAdmin({ config, log, views: { projections }, analytics }: AdminRoutes): (admin: Routes) => void {
  const engine = engineOf(config.log.url);
  const facts: LogFacts = {
    log,
    engine,
    durability: engine === 'files' ? config.log.durability : undefined,
    segments: engine === 'memory' ? undefined : segmentLister(directoryOf(config.log.readUrl)),
  };
  const about = Object.fromEntries(savedViews.map((view) => [view.name, view.about]));
  return (admin) => {
    registerLog(admin, facts);
    registerViews(admin, {
      log,
      projections,
      about: { ...aboutUnsavedViews, ...about, analytics: 'all events, in ClickHouse, for reports and SQL' },
      analytics: () => analyticsFacts(analytics),
    });
  };
}

function engineOf(url: string): LogFacts['engine'] {
  if (url.startsWith('file:')) return 'files';
  if (url.startsWith('kafka:')) return 'kafka';
  return url.startsWith('memory:') ? 'memory' : 'eventstore';
}

function analyticsFacts(analytics: AnalyticsQueries | undefined): AnalyticsFacts | undefined {
  const status = analytics?.status();
  if (status === undefined || status.health === 'off') return undefined;
  const { health, lagEvents, lagMs, position, error } = status;
  return {
    ...{ health, lagEvents, lagMs, error },
    position: position === undefined ? undefined : formatPosition(position),
  };
}
