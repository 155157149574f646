/** The admin API under all its prefixes: each component registers its own routes. */
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { SealerSource } from '../../commands/credentials/sealed-credentials.ts';
import type { Config } from '../../config/config.ts';
import type { EventLog } from '../../events/log.ts';
import { type Purge, registerCachePurge } from '../../http/admin/cache-purge.ts';
import { type GatewaysListed, registerGateways } from '../../http/admin/gateways.ts';
import { createLiveLogs } from '../../http/admin/live-logs.ts';
import { mountAdmin } from '../../http/admin/mount.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { Metrics } from '../../http/metrics.ts';
import type { ReadToPresent } from '../../http/present-reads.ts';
import type { OpenExchangesView } from '../../projections/open-exchanges-view.ts';
import { type AccessControl, type KnownAccess, registerAccessRoutes } from '../access.ts';
import type { Analytics, AnalyticsQueries } from '../analytics/reports.ts';
import type { GuardrailReplayWiring } from '../guardrail-replay.ts';
import type { Limits } from '../limits.ts';
import type { GatewayJobs } from '../log/jobs.ts';
import type { GatewayViews } from '../log/views.ts';
import type { GatewayPricing } from '../pricing.ts';
import type { GatewayProviders } from '../providers.ts';
import type { VirtualModels } from '../virtual-models.ts';
import type { Workflows } from '../workflows.ts';
import { gatewayAdmin, switches } from './gateway-routes.ts';
import { adminHistory } from './history.ts';
import { logAdmin } from './log.ts';

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
  /** Awaited before reads; undefined where no other gateway can use the log. */
  readonly readToPresent: ReadToPresent | undefined;
  /** Undefined while the gateway has no response cache. */
  readonly purgeCache: Purge | undefined;
}

/** Does nothing while the admin API is off. */
export function registerAdminRoutes(app: Routes, routes: AdminRoutes): void {
  const { config, log, views, knownKeys, control, virtualModels, pricing, limits, reports } = routes;
  if (!config.admin.endpointsEnabled) return;
  const { registry } = routes.providers;
  const live = createLiveLogs({
    log,
    audit: routes.audit,
    inFlight: routes.openExchanges,
    enabled: config.liveLogs.enabled,
    isStillAdministrator: (caller) => knownKeys.isStillAdministrator(caller),
    heartbeatSeconds: config.liveLogs.heartbeatSeconds,
    replayLimit: config.liveLogs.replayLimit,
  });
  const history = adminHistory({
    log,
    journal: views.adminJournal,
    registry,
    known: knownKeys,
    control,
    workflows: routes.workflows,
    virtualModels: { inForce: virtualModels.directory, declared: virtualModels.facts.declared },
  });
  const registerGateway = gatewayAdmin({
    config,
    log,
    providers: routes.providers,
    stored: views.credentials,
    remembered: views.providerMemory,
    tagging: views.tagging,
    sealers: routes.sealers,
    models: {
      enabledByDefault: config.models.enabledByDefault,
      allows: (asker, provider, model) => control.access.allows(asker, provider, model),
      policy: (provider, model) => virtualModels.directory.policyOf(provider, model),
      price: (provider, model) => pricing.prices.shown(provider, model),
    },
    flags: () => switches(config, virtualModels.routeStrategies),
    views: [
      ...[views.virtualModels, views.providerMemory, views.credentials, views.tagging],
      ...[knownKeys.keys, knownKeys.users],
    ],
  });
  const registerLogAndViews = logAdmin({
    ...{ config, log },
    projections: views.projections,
    analytics: routes.analytics,
  });
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
    registerLogAndViews(admin);
    registerGateways(admin, { gateways: routes.gateways, head: () => log.status().head });
  };
  mountAdmin(app, register, routes.readToPresent);
  routes.metrics.watch({ liveClients: () => live.clients() });
}
