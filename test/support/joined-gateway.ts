/** A gateway as far as the log knows it: a replica of a log in memory, and the leases of the gateways on it. */
import type { KnownLeases } from '../../src/commands/gateways/lease.ts';
import type { EventLog } from '../../src/events/log.ts';
import { type Leases, leasesView } from '../../src/projections/leases.ts';
import { createProjectionRunner, type ProjectionRunner } from '../../src/projections/runner.ts';
import type { MemoryEngineStore } from './memory-engine.ts';
import { Replica } from './replicas.ts';

export interface JoinedGateway {
  readonly log: EventLog;
  readonly leases: KnownLeases;
  readonly projections: ProjectionRunner;
  dispose(): Promise<void>;
}

export async function joinGateway(store: MemoryEngineStore): Promise<JoinedGateway> {
  const replica = await Replica.open(() => store.connect());
  const projections = createProjectionRunner(replica.log);
  let waiting = Promise.withResolvers<void>();
  const running = projections.run({
    ...leasesView,
    apply(state: Leases, event) {
      leasesView.apply(state, event);
      waiting.resolve();
      waiting = Promise.withResolvers<void>();
      return state;
    },
  });
  await running.caughtUp;
  return {
    log: replica.log,
    projections,
    leases: {
      get granted() {
        return running.state;
      },
      whenProcessed: (position) => running.whenProcessed(position),
      changed: () => waiting.promise,
    },
    async dispose() {
      await projections.close();
      await replica.dispose();
    },
  };
}
