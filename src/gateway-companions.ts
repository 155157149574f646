/** What a gateway has beside its configuration. */
import type { AnalyticsQueries } from './wiring/analytics/reports.ts';
import type { WorkerPlace } from './wiring/workers/worker-place.ts';

export interface GatewayCompanions {
  /** A process beside the gateway, whose queries and state the gateway shows. */
  readonly analytics?: AnalyticsQueries | undefined;
  /** Folder of the built dashboard; default: that of this project. */
  readonly dashboardFolder?: string | undefined;
  /** False when this gateway replaces one of this process: budgets, limits and the default workflow are recorded already. */
  readonly declares?: boolean | undefined;
  /** The place of this process in a service with several workers. */
  readonly worker?: WorkerPlace | undefined;
  /** Ends a start that waits for the engine of the log: `startGateway` then rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}
