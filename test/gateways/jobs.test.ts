/** Jobs that one of several gateways does. Each has a replica of a log in memory. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FencedLog } from '../../src/commands/gateways/fenced-log.ts';
import { type HeldJob, type JobName, Jobs } from '../../src/commands/gateways/jobs.ts';
import { Lease, LeaseLost } from '../../src/commands/gateways/lease.ts';
import type { StreamName } from '../../src/events/event.ts';
import { type EventLog, type StreamWrite, WrongExpectedRevision } from '../../src/events/log.ts';
import { type JobsState, jobsView } from '../../src/projections/leases.ts';
import { joinGateway } from '../support/joined-gateway.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';

let store: MemoryEngineStore;
let closing: (() => Promise<void>)[];

beforeEach(() => {
  store = new MemoryEngineStore({ readTurns: () => 5 });
  closing = [];
});
afterEach(async () => {
  for (const close of closing) await close();
});

async function start(folder: string) {
  const { log: replica, leases, projections, dispose } = await joinGateway(store);
  const lease = await Lease.take({ log: replica, leases, folder, leaseMs: 1000, now: () => 0 });
  const log = new FencedLog(replica);
  const nothing = async () => {};
  log.use({
    lease,
    appliedEverywhere: nothing,
    processed: nothing,
    hasOthers: () => false,
    knownToOthers: () => undefined,
  });
  let waiting = Promise.withResolvers<void>();
  const running = projections.run({
    ...jobsView,
    apply(state: JobsState, event) {
      waiting.resolve();
      waiting = Promise.withResolvers<void>();
      return jobsView.apply(state, event);
    },
  });
  await running.caughtUp;
  const known = {
    get: (name: string) => running.state.get(name),
    whenProcessed: running.whenProcessed,
    changed: () => waiting.promise,
  };
  const errors: unknown[] = [];
  const jobs = new Jobs({ log, gateway: lease.gateway, leases, jobs: known, onError: (error) => errors.push(error) });
  closing.push(async () => {
    jobs.stop();
    await dispose();
    expect(errors).toEqual([]);
  });
  const held: HeldJob[] = [];
  return { lease, leases, jobs, log, held, begin: (job: HeldJob) => void held.push(job) };
}

type Started = Awaited<ReturnType<typeof start>>;

const name: JobName = 'deferred-work';
const noted: StreamWrite[] = [
  {
    stream: 'thing-1' as StreamName,
    events: [{ type: 'thing.noted', schema: 1, data: {}, context: { actor: 'system' } }],
    expectedRevision: 'any',
  },
];

async function takenIn(log: EventLog): Promise<number> {
  let count = 0;
  for await (const _ of log.readAll({ filter: { types: ['job.taken'] } })) count += 1;
  return count;
}

const holders = (all: readonly Started[]) => all.filter(({ held }) => held.length > 0);

async function endLease(of: Started, by: Started): Promise<void> {
  await by.leases.whenProcessed(await by.log.head());
  const known = by.leases.granted.get(of.lease.gateway);
  if (known === undefined) throw new Error('the lease is not known');
  await by.lease.inheritFrom({ ...known });
}

describe('a job', () => {
  it('is done by one of the gateways that start at once, and by exactly one other when its lease has ended', async () => {
    const all = [await start('a'), await start('b'), await start('c'), await start('d')];
    for (const { jobs, begin } of all) jobs.whenFree(name, begin);
    await expect.poll(() => holders(all).length).toBe(1);
    let epoch = '';
    for (const count of [1, 2, 3]) {
      const [holder] = holders(all)
        .toReversed()
        .filter(({ lease }) => !lease.isLost);
      const others = all.filter(({ held }) => held.length === 0);
      const [job] = holder?.held ?? [];
      if (holder === undefined || job?.epoch === undefined || others[0] === undefined) throw new Error('no holder');
      expect(job.epoch > epoch).toBe(true);
      epoch = job.epoch;
      await job.log.append(noted);
      await endLease(holder, others[0]);
      await expect(job.log.append(noted)).rejects.toThrow(LeaseLost);
      await expect.poll(() => holders(all).length).toBe(count + 1);
    }
    const last = all.findLast(({ lease }) => !lease.isLost);
    expect(await takenIn(last?.log as EventLog)).toBe(4);
    expect(all.map(({ held }) => held.length)).toEqual([1, 1, 1, 1]);
  });

  it('that is done once is refused elsewhere while it runs, and free afterwards', async () => {
    const [a, b] = [await start('a'), await start('b')];
    const busy = () => new Error('busy');
    const running = Promise.withResolvers<void>();
    let late: EventLog | undefined;
    const begun = Promise.withResolvers<void>();
    const first = a.jobs.once(
      'price-recalculation',
      async ({ log }) => {
        late = log;
        await log.append(noted);
        begun.resolve();
        await running.promise;
        return 'done';
      },
      busy,
    );
    await begun.promise;
    await expect(b.jobs.once('price-recalculation', async () => 'also', busy)).rejects.toThrow('busy');
    running.resolve();
    expect(await first).toBe('done');
    await b.leases.whenProcessed(await a.log.head());
    await expect.poll(() => b.jobs.once('price-recalculation', async () => 'next', busy).catch(String)).toBe('next');
    await expect(late?.append(noted)).rejects.toThrow(WrongExpectedRevision);
    expect(await a.jobs.once('price-recalculation', async () => 'again', busy)).toBe('again');
  });

  it('is not waited for by a gateway that has stopped or lost its lease', async () => {
    const [a, b, c] = [await start('a'), await start('b'), await start('c')];
    a.jobs.whenFree(name, a.begin);
    await expect.poll(() => a.held.length).toBe(1);
    b.jobs.whenFree(name, b.begin);
    c.jobs.whenFree(name, c.begin);
    b.jobs.stop();
    await endLease(a, b);
    await expect.poll(() => c.held.length).toBe(1);
    expect(b.held).toEqual([]);
  });
});
