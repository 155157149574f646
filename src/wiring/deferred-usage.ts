/** What it costs that providers go on working after their answer, wired: known from the log, and followed to its end. */
import { DeferredUsage } from '../commands/deferred/deferred-usage.ts';
import type { OpenWork } from '../commands/deferred/open-work.ts';
import type { Pricing } from '../commands/pricing/pricing.ts';
import { type LookDependencies, lookAtWork } from '../commands/work-follower/look-at-work.ts';
import { WorkFollower } from '../commands/work-follower/work-follower.ts';
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

export interface GatewayDeferredUsage {
  readonly usage: DeferredUsage;
  /** The work that is not over. */
  readonly open: () => ReadonlyMap<StreamName, OpenWork>;
  /** Resolves when all that the log tells of such work is known. */
  readonly caughtUp: Promise<void>;
  /** Begins to ask providers. */
  follow(deps: Omit<LookDependencies, 'deferred'>): void;
  stop(): Promise<void>;
}

export function gatewayDeferredUsage({
  log,
  projections,
  pricing,
  countTokens,
  onError,
}: DeferredUsageWiring): GatewayDeferredUsage {
  const running = projections.run(deferredUsageView);
  const usage = new DeferredUsage({
    log,
    pricing,
    countTokens,
    works: {
      find(kind, provider, workId) {
        const stream = running.state.byWork.get(workKey({ kind, provider, workId }));
        return stream === undefined ? undefined : running.state.open.get(stream);
      },
    },
  });
  const open = () => running.state.open;
  let follower: WorkFollower | undefined;
  return {
    usage,
    open,
    caughtUp: running.caughtUp,
    follow(deps) {
      follower = new WorkFollower({
        open,
        look: (work, isTooOld, signal) => lookAtWork(work, isTooOld, signal, { ...deps, deferred: usage }),
        now: Date.now,
        onError,
      });
      follower.begin();
    },
    stop: async () => follower?.stop(),
  };
}
