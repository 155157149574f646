/** Leases of gateways on one log. Each gateway has a replica of a log in memory; time is a number that a test moves. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fence, FencedLog } from '../../src/commands/gateways/fenced-log.ts';
import { type KnownLease, Lease, LeaseLost } from '../../src/commands/gateways/lease.ts';
import { LeaseKeeper, type LeaseKeeperOptions } from '../../src/commands/gateways/lease-keeper.ts';
import { leaseEnded } from '../../src/events/catalogue/gateway.ts';
import { idOf, type NewEvent, type Position, type StreamName } from '../../src/events/event.ts';
import {
  type Appended,
  type EventLog,
  LogUnavailable,
  type StreamWrite,
  WrongExpectedRevision,
} from '../../src/events/log.ts';
import { type JoinedGateway, joinGateway } from '../support/joined-gateway.ts';
import { MemoryEngineStore } from '../support/memory-engine.ts';

const leaseMs = 1000;
let store: MemoryEngineStore;
let gateways: JoinedGateway[];
let now = 0;

beforeEach(() => {
  store = new MemoryEngineStore();
  gateways = [];
  now = 0;
});
afterEach(async () => {
  for (const gateway of gateways) await gateway.dispose();
});

async function join(): Promise<JoinedGateway> {
  const gateway = await joinGateway(store);
  gateways.push(gateway);
  return gateway;
}

function take(
  { log, leases }: JoinedGateway,
  folder: string,
  { leaseMs: ms }: { leaseMs?: number | undefined } = { leaseMs },
): Promise<Lease> {
  return Lease.take({ log, leases, folder, leaseMs: ms, now: () => now });
}

const noted = (stream: string): StreamWrite => {
  const event: NewEvent = { type: 'thing.noted', schema: 1, data: {}, context: { actor: 'system' } };
  return { stream: stream as StreamName, events: [event], expectedRevision: 'any' };
};

async function ends(log: EventLog): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const { stream, data } of log.readAll({ filter: { types: [leaseEnded.type] } })) {
    found.push([idOf(stream), data]);
  }
  return found;
}

/** Everything that was appended by now is known to each gateway. */
async function settled(): Promise<void> {
  for (const { log, leases } of gateways) await leases.whenProcessed(await log.head());
}

describe('a lease', () => {
  it('ends when the next gateway on its folder takes one; nothing of the first is accepted after that', async () => {
    const [a, b] = [await join(), await join()];
    const first = await take(a, 'folder');
    const other = await take(b, 'another folder');
    await first.append([noted('thing-1')]);
    const second = await take(b, 'folder');
    expect(await ends(b.log)).toEqual([[first.gateway, { reason: 'replaced', heir: second.gateway }]]);
    await expect(first.append([noted('thing-2')])).rejects.toThrow(LeaseLost);
    await first.lost;
    expect(first.isValid).toBe(false);
    await other.append([noted('thing-3')]);
    const streams: string[] = [];
    for await (const { stream } of b.log.readAll({ filter: { streams: ['thing-'] } })) streams.push(stream);
    expect(streams).toEqual(['thing-1', 'thing-3']);
  });

  it('replaces all others where one gateway can use the log at a time', async () => {
    const [a, b] = [await join(), await join()];
    const first = await take(a, 'folder', {});
    await settled();
    const second = await take(b, 'moved folder', {});
    expect([...b.leases.granted.keys()]).toEqual([second.gateway]);
    await expect(first.append([noted('thing-1')])).rejects.toThrow(LeaseLost);
    now = 1e12;
    expect(second.isValid).toBe(true);
  });

  it('is valid for its time from the sending of the latest renewal', async () => {
    const a = await join();
    now = 500;
    const lease = await take(a, 'folder');
    now = 1499;
    expect(lease.isValid).toBe(true);
    const renewing = lease.renew('0' as Position);
    now = 2000;
    await renewing;
    now = 2498;
    expect(lease.isValid).toBe(true);
    now = 2499;
    expect(lease.isValid).toBe(false);
  });

  it('is not valid after a suspension during which the monotonic clock stood', async () => {
    const { log, leases } = await join();
    let wall = 1e12;
    const lease = await Lease.take({ log, leases, folder: 'folder', leaseMs, now: () => now, wallClock: () => wall });
    wall += 999;
    expect(lease.isValid).toBe(true);
    wall += 1;
    expect(lease.isValid).toBe(false);
    await lease.renew('0' as Position);
    expect(lease.isValid).toBe(true);
    wall -= 3_600_000;
    now = 999;
    expect(lease.isValid).toBe(true);
    now = 1000;
    expect(lease.isValid).toBe(false);
  });

  it('cannot be ended by a gateway that has not read its latest renewal', async () => {
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const known = [...b.leases.granted.values()].find(({ gateway }) => gateway === one.gateway);
    if (known === undefined) throw new Error('b does not know the lease of a');
    const asSeen = { ...known };
    await one.renew('0' as Position);
    await expect(other.inheritFrom(asSeen)).rejects.toThrow(WrongExpectedRevision);
    await one.append([noted('thing-1')]);
  });

  it('is ended by exactly one of several gateways', async () => {
    const all = [await join(), await join(), await join()];
    const [dead, ...others] = [
      await take(all[0] as JoinedGateway, '0'),
      await take(all[1] as JoinedGateway, '1'),
      await take(all[2] as JoinedGateway, '2'),
    ];
    await settled();
    const known = all[1]?.leases.granted.get(dead?.gateway ?? '');
    if (dead === undefined || known === undefined) throw new Error('a lease is missing');
    const seen = { ...known };
    const results = await Promise.allSettled(others.map((lease) => lease.inheritFrom(seen)));
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    await expect(dead.append([noted('thing-1')])).rejects.toThrow(LeaseLost);
  });

  it('is found to have ended also by an append that another condition refuses: the heir has recorded something', async () => {
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const known = b.leases.granted.get(one.gateway);
    if (known === undefined) throw new Error('b does not know the lease of a');
    await other.inheritFrom({ ...known });
    await other.append([noted('exchange-1')]);
    const append = one.append([{ ...noted('exchange-1'), expectedRevision: 'noStream' }]);
    await expect(append).rejects.toThrow(LeaseLost);
    await one.lost;
    await expect(other.append([{ ...noted('exchange-1'), expectedRevision: 'noStream' }])).rejects.toThrow(
      WrongExpectedRevision,
    );
  });

  it('leaves the exchanges of a gateway that stops to another one', async () => {
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    await one.end([noted('gateway-end')]);
    await settled();
    expect(await ends(b.log)).toEqual([[one.gateway, { reason: 'stopped', heir: other.gateway }]]);
    await other.end([]);
    expect((await ends(b.log)).at(-1)).toEqual([other.gateway, { reason: 'stopped' }]);
  });
});

describe('a gateway that was cut off from the engine', () => {
  it('ends the lease of another one only when that is silent after it can read again', async () => {
    const shortMs = 50;
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a', { leaseMs: shortMs }), await take(b, 'b', { leaseMs: shortMs })];
    await settled();
    const expired: string[] = [];
    let checks = 0;
    const keeper = new LeaseKeeper({
      ...{ lease: one, leaseMs: shortMs, leases: a.leases, applied: async () => {}, onError: () => {} },
      expired: (gateway) => expired.push(gateway),
      now: () => {
        checks += 1;
        return now;
      },
    });
    const checked = async () => {
      const from = checks;
      await expect.poll(() => checks, { interval: 1 }).toBeGreaterThan(from + 4);
    };
    try {
      await checked();
      store.stop();
      now = 10_000;
      await checked();
      store.start();
      await expect.poll(() => one.isValid, { interval: 1 }).toBe(true);
      await checked();
      expect(expired).toEqual([]);
      await other.append([noted('thing-1')]);
      for (let step = 0; step < 100 && expired.length === 0; step++) {
        now += 2;
        await expect.poll(() => one.isValid, { interval: 1 }).toBe(true);
        await checked();
      }
      expect(expired).toEqual([other.gateway]);
      await expect(other.append([noted('thing-2')])).rejects.toThrow(LeaseLost);
    } finally {
      keeper.stop();
    }
  });
});

describe('an append that is acknowledged after the time of the lease', () => {
  /** A gateway whose clock is past its lease, and a function that is called between the record and its acknowledgement. */
  async function late(meanwhile: (other: Lease, gateway: string, b: JoinedGateway) => Promise<unknown>) {
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    now = 10 * leaseMs;
    let isFirst = true;
    const lease: Fence['lease'] = {
      get isValid() {
        return one.isValid;
      },
      async append(writes, options) {
        const appended = await one.append(writes, options);
        if (isFirst) await meanwhile(other, one.gateway, b);
        isFirst = false;
        return appended;
      },
    };
    const log = new FencedLog(a.log);
    log.use({
      ...{ lease, appliedEverywhere: async () => {}, processed: async () => {} },
      ...{ hasOthers: () => false, knownToOthers: () => undefined },
    });
    return log;
  }

  it('is confirmed when the lease has not ended', async () => {
    const log = await late(async () => {});
    expect((await log.append([noted('exchange-1')])).revisions).toHaveLength(1);
  });

  it('has an unknown outcome when another gateway has taken over, so that no provider is called', async () => {
    const log = await late(async (other, gateway, b) => {
      const known = b.leases.granted.get(gateway);
      if (known !== undefined) await other.inheritFrom({ ...known });
    });
    await expect(log.append([noted('exchange-1')])).rejects.toMatchObject({
      code: 'log_unavailable',
      outcome: 'unknown',
    });
  });
});

async function firstOf(
  events: AsyncIterable<{ readonly type: string; readonly position: Position }>,
): Promise<Position> {
  for await (const { type, position } of events) if (type !== '$caughtUp') return position;
  throw new Error('there is no event');
}

function fenceOf(lease: Lease, keeper: LeaseKeeper): Fence {
  return {
    lease,
    appliedEverywhere: (position) => keeper.appliedEverywhere(position),
    processed: async () => {},
    hasOthers: () => keeper.hasOthers(),
    knownToOthers: () => keeper.knownToOthers(),
  };
}

describe('a lease that was not renewed in time', () => {
  it('is not ended when it is renewed while its keeper ends another one', async () => {
    const all = [await join(), await join(), await join()] as const;
    const [a, b, c] = [await take(all[0], 'a'), await take(all[1], 'b'), await take(all[2], 'c')];
    await settled();
    const attempts: Promise<unknown>[] = [];
    const both = Promise.withResolvers<void>();
    const slow = {
      gateway: c.gateway,
      grantedAt: c.grantedAt,
      isValid: true,
      isLost: false,
      lost: c.lost,
      renew: async () => {},
      inheritFrom(known: KnownLease) {
        const attempt = attempts.length === 0 ? c.inheritFrom(known).then(afterRenewal) : c.inheritFrom(known);
        if (attempts.push(attempt) === 2) both.resolve();
        return attempt;
      },
    };
    const afterRenewal = async (appended: Appended) => {
      await b.renew('0' as Position);
      await settled();
      return appended;
    };
    const [renew = () => {}, check = () => {}] = keeperTimes({ lease: slow, leases: all[2].leases });
    check();
    now = 1201;
    renew();
    await settled();
    check();
    await both.promise;
    expect((await Promise.allSettled(attempts)).map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    await b.append([noted('thing-1')]);
    await expect(a.append([noted('thing-2')])).rejects.toThrow(LeaseLost);
  });
});

/** What a keeper does at its times: it renews the lease, and ends those that have expired. */
function keeperTimes({ lease, leases }: Pick<LeaseKeeperOptions, 'lease' | 'leases'>): (() => void)[] {
  const checks: (() => void)[] = [];
  new LeaseKeeper({
    ...{ lease, leaseMs, leases, applied: async () => {}, expired: () => {}, now: () => now },
    onError: (error) => {
      throw error;
    },
    every(_, work) {
      checks.push(work);
      return () => {};
    },
  });
  return checks;
}

describe('a change of the configuration', () => {
  const keepers: LeaseKeeper[] = [];
  afterEach(() => {
    for (const keeper of keepers.splice(0)) keeper.stop();
  });

  function keeperOf(
    { leases }: JoinedGateway,
    lease: Lease,
    applied: (position: Position) => Promise<void>,
  ): LeaseKeeper {
    const keeper = new LeaseKeeper({
      ...{ lease, leaseMs: 3_600_000, leases, applied },
      ...{ expired: () => {}, onError: () => {}, now: () => now },
    });
    keepers.push(keeper);
    return keeper;
  }

  it('resolves when the other gateways have applied it, and other appends do not wait', async () => {
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const applied = Promise.withResolvers<void>();
    const keeperA = keeperOf(a, one, async () => {});
    const keeperB = keeperOf(b, other, () => applied.promise);
    const log = new FencedLog(a.log);
    log.use(fenceOf(one, keeperA));

    await log.append([noted('exchange-1')]);
    let isConfirmed = false;
    const change = log.append([noted('key-1')]).then(({ position }) => {
      isConfirmed = true;
      return position;
    });
    await log.append([noted('exchange-2')]);
    await settled();
    keeperB.changeRead(await b.log.head());
    await log.append([noted('exchange-3')]);
    expect(isConfirmed).toBe(false);
    applied.resolve();
    expect(Number(await change)).toBeGreaterThan(0);
  });

  it('is stated by a later renewal when the statement of the change before it could not be recorded', async () => {
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const first = await a.log.append([noted('key-1')]);
    const begun = Promise.withResolvers<void>();
    const applied = Promise.withResolvers<void>();
    const stated: Position[] = [];
    const failsOnce = Object.assign(Object.create(other) as Lease, {
      async renew(position: Position) {
        stated.push(position);
        if (stated.length === 1) throw new LogUnavailable('a test', 'unknown');
        await other.renew(position);
      },
    });
    const keeper = keeperOf(b, failsOnce, () => {
      begun.resolve();
      return applied.promise;
    });
    keeper.changeRead(first.position);
    await begun.promise;
    const second = await a.log.append([noted('key-2')]);
    keeper.changeRead(second.position);
    applied.resolve();
    await keeperOf(a, one, async () => {}).appliedEverywhere(second.position);
    expect(stated).toEqual([first.position, second.position]);
  });

  it('is not waited for by reads; reads of what clients have stored have what other gateways have recorded', async () => {
    store = new MemoryEngineStore({ readTurns: () => 5 });
    const [a, b] = [await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const log = new FencedLog(a.log);
    log.use(
      fenceOf(
        one,
        keeperOf(a, one, async () => {}),
      ),
    );
    const found = async (stream: string) => {
      let count = 0;
      for await (const _ of log.readStream(stream as StreamName)) count += 1;
      return count;
    };
    for (let n = 1; n <= 20; n++) {
      await other.append([noted('response-1'), noted('conversation-1')]);
      expect(await Promise.all([found('response-1'), found('conversation-1'), found('response-1')])).toEqual([n, n, n]);
    }
  });

  it('is not held up by a gateway that joins later, which has read it before it serves', async () => {
    const [a, b, c] = [await join(), await join(), await join()];
    const [one, other] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const keeper = keeperOf(a, one, async () => {});
    const log = new FencedLog(a.log);
    log.use(fenceOf(one, keeper));
    const change = log.append([noted('key-1')]);
    const position = await firstOf(b.log.subscribe({ filter: { streams: ['key-'], types: ['thing.noted'] } }));
    const late = await take(c, 'c');
    await late.renew('0' as Position);
    await other.renew(position);
    expect((await change).position).toBe(position);
    await settled();
    expect([...a.leases.granted.values()].map(({ applied }) => applied >= position)).toEqual([false, true, true]);
  });

  it('resolves when the lease of a gateway that does not answer has ended', async () => {
    const [a, b] = [await join(), await join()];
    const [one] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const keeper = keeperOf(a, one, async () => {});
    const log = new FencedLog(a.log);
    log.use(fenceOf(one, keeper));
    const change = log.append([noted('user-/team')]);
    const [silent] = [...a.leases.granted.values()].filter(({ gateway }) => gateway !== one.gateway);
    if (silent === undefined) throw new Error('a does not know b');
    await one.inheritFrom(silent);
    await change;
  });

  it('is not confirmed by a gateway that has lost its own lease meanwhile', async () => {
    const [a, b] = [await join(), await join()];
    const [one] = [await take(a, 'a'), await take(b, 'b')];
    await settled();
    const keeper = keeperOf(a, one, async () => {});
    const log = new FencedLog(a.log);
    log.use(fenceOf(one, keeper));
    const change = log.append([noted('key-1')]);
    // It may have been recorded before the lease ended.
    const refused = expect(change).rejects.toThrow('the lease of this gateway has ended');
    await take(b, 'a');
    await one.renew('0' as Position).catch(() => {});
    await refused;
  });
});
