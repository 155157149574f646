/** Wiring of deferred usage: the cost of work that providers continue after their answer, tracked from the log. */
import { DeferredUsage } from '../commands/deferred/deferred-usage.ts';
import type { OpenWork, OpenWorks } from '../commands/deferred/open-work.ts';
import type { HeldJob } from '../commands/gateways/jobs.ts';
import type { Pricing } from '../commands/pricing/pricing.ts';
import { type CheckDependencies, checkWork, WorkFollower } from '../commands/work-follower/work-follower.ts';
import type { StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { deferredUsageView, workKey } from '../projections/deferred-usage.ts';
import type { ProjectionRunner } from '../projections/runner.ts';

export interface DeferredUsageWiring {
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  readonly pricing: Pricing;
  readonly countTokens: (work: OpenWork, tokens: number) => void;
  readonly onError: (error: unknown) => void;
}

export type GatewayDeferredUsage = ReturnType<typeof gatewayDeferredUsage>;

export function gatewayDeferredUsage({ log, projections, pricing, countTokens, onError }: DeferredUsageWiring) {
  const running = projections.run(deferredUsageView);
  const works: OpenWorks = {
    find(kind, provider, workId) {
      const stream = running.state.byWork.get(workKey({ kind, provider, workId }));
      return stream === undefined ? undefined : running.state.open.get(stream);
    },
  };
  const usage = new DeferredUsage({ log, pricing, countTokens, works });
  const open = (): ReadonlyMap<StreamName, OpenWork> => running.state.open;
  let follower: WorkFollower | undefined;
  return {
    usage,
    /** The work that has not ended. */
    open,
    /** Resolves when all events about such work in the log have been read. */
    caughtUp: running.caughtUp,
    /** Starts to query providers. @param held the job of doing so */
    follow(held: HeldJob, deps: Omit<CheckDependencies, 'deferred'>) {
      const deferred = new DeferredUsage({ log: held.log, pricing, countTokens, works });
      follower = new WorkFollower({
        open,
        look: (work, isTooOld, signal) => checkWork(work, isTooOld, signal, { ...deps, deferred }),
        now: Date.now,
        onError,
      });
      follower.begin();
    },
    stop: async () => follower?.stop(),
  };
}
