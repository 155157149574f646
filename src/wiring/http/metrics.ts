/** The figures that a scrape of the metrics reads from the components, and their route. */
import type { Config } from '../../config/config.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import { type Metrics, registerMetrics } from '../../http/metrics.ts';
import type { OpenExchanges } from '../../http/open-exchanges.ts';
import type { ProjectionRunner } from '../../projections/runner.ts';
import type { AnalyticsQueries } from '../analytics/reports.ts';
import type { Limits } from '../limits.ts';
import { type GatewayLog, logFigures } from '../log/event-log.ts';
import type { GatewayProviders } from '../providers.ts';
import type { VirtualModels } from '../virtual-models.ts';

export interface MetricsRoutes {
  readonly config: Pick<Config, 'metrics'>;
  readonly metrics: Metrics;
  readonly log: GatewayLog;
  readonly projections: ProjectionRunner;
  readonly exchanges: OpenExchanges;
  readonly limits: Limits;
  readonly providers: GatewayProviders;
  readonly virtualModels: Pick<VirtualModels, 'fallbacks'>;
  /** Undefined while analytics is off. */
  readonly analytics: AnalyticsQueries | undefined;
  /** The text of a scrape, for a service of several workers. */
  readonly wholeService: (() => Promise<string>) | undefined;
}

export function registerMetricsRoute(app: Routes, routes: MetricsRoutes): void {
  const { metrics, log, projections, exchanges, limits, providers, virtualModels, analytics, wholeService } = routes;
  const { enabled, endpoint: path, isPublic } = routes.config.metrics;
  metrics.watch({
    inFlight: () => exchanges.count,
    refused: () => new Map([...limits.refused, ['overloaded', exchanges.overloads]]),
    routeFallbacks: () => virtualModels.fallbacks,
    log: () => logFigures(log),
    providers: () => providerFigures(providers),
    projections: () => projections.status(),
    analytics: () => analytics?.status(),
  });
  const { contentType } = metrics;
  const text = wholeService ?? (() => metrics.text());
  if (enabled) registerMetrics(app, { text, contentType }, { path, isPublic });
}

function* providerFigures({ registry, active }: GatewayProviders) {
  for (const { name, state } of registry.status()) {
    yield { name, up: state === 'available', circuit: active.resilience.get(name)?.breakers.state };
  }
}
