/** The admin routes for the gateway itself: its providers, models, settings and tags. */
import { addressesCheck } from '../../commands/credentials/check-address.ts';
import { publicUrl } from '../../commands/credentials/masked-url.ts';
import type { SealerSource } from '../../commands/credentials/sealed-credentials.ts';
import type { RouteStrategies } from '../../commands/virtual-models/route-strategies.ts';
import type { Config } from '../../config/config.ts';
import { gatewayVersion } from '../../config/gateway-version.ts';
import { strategies } from '../../events/catalogue/virtual-model.ts';
import { formatVersion } from '../../events/embedded/frame.ts';
import type { EventLog } from '../../events/log.ts';
import { type AdminModelsOptions, registerAdminModels } from '../../http/admin/admin-models.ts';
import { registerProviderCredentials } from '../../http/admin/provider-credentials.ts';
import { type ProviderFacts, registerProvidersStatus } from '../../http/admin/providers-status.ts';
import { type RuntimeOptions, registerRuntime } from '../../http/admin/runtime.ts';
import { createRefresh, type RefreshPlan, type StepOutcome } from '../../http/admin/runtime-refresh.ts';
import { registerTagging } from '../../http/admin/tagging.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { StoredCredentials } from '../../projections/provider-credentials.ts';
import type { ProviderMemory } from '../../projections/provider-memory.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { TaggingState } from '../../projections/tagging.ts';
import type { GatewayProviders } from '../providers.ts';

export interface GatewayAdminOptions {
  readonly config: Config;
  readonly log: EventLog;
  readonly providers: GatewayProviders;
  readonly stored: RunningProjection<StoredCredentials>;
  readonly remembered: RunningProjection<ProviderMemory>;
  readonly tagging: RunningProjection<TaggingState>;
  readonly sealers: SealerSource;
  readonly models: Omit<AdminModelsOptions, 'list'>;
  readonly flags: RuntimeOptions['flags'];
  /** Views that a refresh checks, in addition to the providers' lists. */
  readonly views: readonly RunningProjection<unknown>[];
}

/** @returns a function that registers the routes; called once for each prefix of the API */
export function gatewayAdmin(options: GatewayAdminOptions): (admin: Routes) => void {
  const { config, log, providers, stored, tagging, sealers, models, flags } = options;
  const { registry } = providers;
  // One refresh at a time, across all prefixes of the API.
  const refresh = createRefresh(refreshPlan(options));
  return (admin) => {
    registerProvidersStatus(admin, () => providerFacts(options));
    registerProviderCredentials(admin, {
      log,
      stored,
      sealers,
      checkAddresses: config.registry.allowLocalProviders ? async () => {} : addressesCheck(),
      managed: config.providers,
      follow: () => providers.follow(),
      problems: () => providers.problems(),
    });
    registerAdminModels(admin, { ...models, list: () => registry.list() });
    registerRuntime(admin, { flags, refresh, version: gatewayVersion, logFormat: formatVersion });
    registerTagging(admin, { log, set: tagging, managed: config.tagging });
  };
}

function providerFacts({ providers, stored, remembered }: GatewayAdminOptions): ProviderFacts[] {
  const { roster, registry } = providers;
  const listings = new Map(registry.status().map((status) => [status.name, status]));
  const inForce = roster.configs.map(({ name, type, baseUrl, options, models, resilience }) => ({
    name,
    type,
    baseUrl: publicUrl(baseUrl),
    apiVersion: options['apiVersion'],
    configuredModels: models.map(({ id }) => id),
    resilience,
    listing: listings.get(name),
    circuit: roster.resilience.get(name)?.breakers.state,
    rememberedListedAt: remembered.state.get(name)?.modelsListedAt,
    problem: undefined,
  }));
  const broken = [...providers.problems()].map(([name, problem]) => {
    const { type = '', models = [] } = stored.state.get(name) ?? {};
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

function refreshPlan({ providers, views }: GatewayAdminOptions): RefreshPlan {
  const { registry } = providers;
  // A view follows the log by itself; a refresh only checks that it has not stopped.
  const fromLog = async (view: RunningProjection<unknown>): Promise<StepOutcome> => {
    const { phase, error } = view.status();
    if (phase === 'stopped') throw new Error(error ?? 'it no longer follows the log');
    return { status: phase === 'live' ? 'ok' : 'partial' };
  };
  return {
    steps: [
      ...views.map((view) => ({ name: view.name.replaceAll('-', '_'), run: () => fromLog(view) })),
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
export function switches(
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
    MCP_ENABLED: false,
    FAILOVER_ENABLED: config.failover.enabled,
    ADMIN_UI_ENABLED: config.admin.uiEnabled,
    DASHBOARD_LIVE_LOGS_ENABLED: config.liveLogs.enabled,
    USER_PATH_HEADER: config.userPathHeaderEnabled ? config.userPathHeader : undefined,
    VIRTUAL_MODEL_STRATEGIES: selectable.join(','),
  };
}
