/** The admin routes for the event log and the read models. */
import type { Config } from '../../config/config.ts';
import { segmentLister } from '../../events/embedded/stat-log.ts';
import { formatPosition } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { directoryOf } from '../../events/open-log.ts';
import { type LogFacts, registerLog } from '../../http/admin/log.ts';
import { type AnalyticsFacts, registerViews } from '../../http/admin/views.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { ProjectionRunner } from '../../projections/runner.ts';
import { aboutUnsavedViews, savedViews } from '../../projections/saved-views.ts';
import type { AnalyticsQueries } from '../analytics/reports.ts';

export interface LogAdminOptions {
  readonly config: Pick<Config, 'log'>;
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  /** Undefined while it is off. */
  readonly analytics: AnalyticsQueries | undefined;
}

/** @returns a function that registers the routes; called once for each prefix of the API */
export function logAdmin({ config, log, projections, analytics }: LogAdminOptions): (admin: Routes) => void {
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
