/** The jobs of this gateway among those on its log. */
import { type HeldJob, type JobName, Jobs } from '../../commands/gateways/jobs.ts';
import type { EventLog } from '../../events/log.ts';
import { type JobsState, jobsView } from '../../projections/jobs.ts';
import type { ProjectionRunner } from '../../projections/runner.ts';
import type { GatewayLease } from './gateways.ts';

export interface GatewayJobsOptions {
  /** With the conditions of the lease. */
  readonly log: EventLog;
  readonly lease: Pick<GatewayLease, 'gateway' | 'known'>;
  /** Whether other gateways can use the log. */
  readonly isShared: boolean;
  readonly projections: ProjectionRunner;
  readonly onError: (error: unknown) => void;
}

export type GatewayJobs = Pick<Jobs, 'whenFree' | 'once' | 'stop'>;

/** Resolves when it is known who has each job. Where no other gateway can use the log, this one has all of them. */
export async function gatewayJobs(options: GatewayJobsOptions): Promise<GatewayJobs> {
  const { log, lease, isShared, projections, onError } = options;
  if (!isShared) return alone({ log, epoch: undefined });
  let waiting = Promise.withResolvers<void>();
  const running = projections.run(
    {
      ...jobsView,
      apply(state: JobsState, event) {
        const next = jobsView.apply(state, event);
        waiting.resolve();
        waiting = Promise.withResolvers<void>();
        return next;
      },
    },
    { hasEffects: true },
  );
  await running.caughtUp;
  const jobs = {
    get: (name: string) => running.state.get(name),
    whenProcessed: running.whenProcessed,
    changed: () => waiting.promise,
  };
  return new Jobs({ log, gateway: lease.gateway, leases: lease.known, jobs, onError });
}

function alone(held: HeldJob): GatewayJobs {
  return {
    whenFree: (_name: JobName, begin) => begin(held),
    once: (_name, work) => work(held),
    stop() {},
  };
}
