import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { mintEventId } from '../../../src/events/event-id.ts';
import { LogUnavailable } from '../../../src/events/log.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { appendUntilAccepted, hasPosition, linesOf, whenState } from '../../contract/recovery.ts';
import { type AppendFault, type MemoryEngine, MemoryEngineStore, turns } from '../../support/memory-engine.ts';
import { Replica } from '../../support/replicas.ts';

const a = streamName('thing', 'a');
const b = streamName('thing', 'b');

describe('an append to an engine that fails', () => {
  let store: MemoryEngineStore;
  let engine: MemoryEngine;
  let replica: Replica;
  let other: Replica;

  beforeEach(async () => {
    store = new MemoryEngineStore();
    engine = store.connect();
    replica = await Replica.open(() => engine, { timing: { retryMs: 1 } });
    other = await Replica.open(() => store.connect());
  });
  afterEach(() => Promise.all([replica.dispose(), other.dispose()]));

  const numbers = async ({ log }: Replica): Promise<unknown[]> =>
    (await collect(log.readAll())).map(({ data }) => (data as { n: number }).n);
  /** Appends the numbers in one turn, so that they go to the engine together. */
  const appendTogether = (...all: number[]) =>
    Promise.all(all.map((n) => replica.log.append([write(a, 'any', noted({ n }))])));
  const sameLogs = async (): Promise<void> => {
    store.landLate();
    await hasPosition(other.log, await replica.log.head());
    const { position } = await other.log.append([write(b, 'any', noted({ n: 'last' }))]);
    await whenState(replica.log, 'ok');
    await hasPosition(replica.log, position);
    expect(await linesOf(other.log)).toEqual(await linesOf(replica.log));
  };

  it.each<AppendFault[]>([
    [{ kind: 'lost' }],
    [{ kind: 'unanswered' }],
    [{ kind: 'twice' }],
    [{ kind: 'slow', turns: 50 }],
    [{ kind: 'late', after: 1 }],
    [{ kind: 'late', after: 4 }],
    [{ kind: 'late', after: 1_000 }],
    [{ kind: 'lost' }, { kind: 'lost' }, { kind: 'lost' }],
    [{ kind: 'unanswered' }, { kind: 'unanswered' }],
    [{ kind: 'late', after: 3 }, { kind: 'late', after: 2 }, { kind: 'twice' }],
    [{ kind: 'lost' }, { kind: 'refused' }],
    [{ kind: 'unanswered' }, { kind: 'refused' }, { kind: 'refused' }],
    [{ kind: 'late', after: 2 }, { kind: 'refused' }, { kind: 'unanswered' }],
  ])('is recorded once and in order after %j', async (...faults) => {
    engine.nextAppends.push(...faults);
    await appendTogether(0, 1, 2);
    for (const n of [3, 4])
      await appendUntilAccepted(replica.log, [write(a, 'any', noted({ n }, { id: mintEventId() }))]);
    expect(await numbers(replica)).toEqual([0, 1, 2, 3, 4]);
    await sameLogs();
    expect(await numbers(replica)).toEqual([0, 1, 2, 3, 4, 'last']);
  });

  it.each([[[0]], [[0, 1]], [[2]], [[1]], [[0, 2]]])(
    'is recorded once when of three only those at %j had arrived',
    async (landed) => {
      engine.nextAppends.push({ kind: 'partial', landed });
      const appends = [0, 1, 2].map((n) => [write(a, 'any', noted({ n }, { id: mintEventId() }))]);
      const appended = await Promise.all(appends.map((writes) => appendUntilAccepted(replica.log, writes)));
      const recorded = await collect(replica.log.readStream(a));
      expect(recorded.map(({ data }) => (data as { n: number }).n).toSorted()).toEqual([0, 1, 2]);
      for (const [n, { position }] of appended.entries()) {
        expect(recorded.find((event) => event.position === position)).toMatchObject({ data: { n } });
      }
      await sameLogs();
    },
  );

  it('is refused with outcome none when the engine refused it, and nothing is recorded', async () => {
    engine.nextAppends.push({ kind: 'refused' });
    const error = await replica.log.append([write(a, 'any', noted({ n: 0 }))]).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LogUnavailable);
    expect(error).toMatchObject({ outcome: 'none' });
    await whenState(replica.log, 'ok');
    await replica.log.append([write(a, 'noStream', noted({ n: 1 }))]);
    expect(await numbers(replica)).toEqual([1]);
    await sameLogs();
  });

  it('may be made again with its ids when the engine refused it', async () => {
    engine.nextAppends.push({ kind: 'refused' });
    const writes = [write(a, 'noStream', noted({ n: 0 }, { id: mintEventId() }))];
    await expect(replica.log.append(writes)).rejects.toMatchObject({ outcome: 'none' });
    await whenState(replica.log, 'ok');
    await replica.log.append(writes);
    expect(await numbers(replica)).toEqual([0]);
  });

  it('waits for its reader: it resolves when it has been read back, after any number of lost connections', async () => {
    store.holdReads();
    let resolved = false;
    const appended = replica.log.append([write(a, 'any', noted({ n: 0 }))]).then(() => {
      resolved = true;
    });
    for (let lost = 0; lost < 3; lost++) {
      await turns(5);
      store.dropReaders();
    }
    expect(store.appends.some(({ writes }) => writes.length > 0)).toBe(true);
    expect(resolved).toBe(false);
    store.releaseReads();
    await appended;
    expect(await numbers(replica)).toEqual([0]);
  });

  it('has the content of its call after it has waited for an engine that holds the one before', async () => {
    store.holdAppends();
    const data = { n: 1 };
    const body = Buffer.from('before');
    const first = replica.log.append([write(a, 'any', noted({ n: 0 }))]);
    await turns(5);
    const second = replica.log.append([write(a, 'any', noted(data, { body }))]);
    data.n = 2;
    body.write('after!');
    await turns(5);
    body.write('later!');
    store.releaseAppends();
    await Promise.all([first, second]);
    const [, event] = await collect(other.log.subscribe(), 3).then((items) => items.filter((item) => 'data' in item));
    expect(event).toMatchObject({ data: { n: 1 } });
    expect(String(event?.body)).toBe('before');
  });

  it('is sent again unchanged', async () => {
    engine.nextAppends.push({ kind: 'unanswered' }, { kind: 'unanswered' });
    store.holdReads();
    const appended = replica.log.append([
      write(a, 'noStream', noted({ n: 0 }, { body: Buffer.from('x') }), noted({ n: 1 })),
    ]);
    while (engine.nextAppends.length > 0) await store.changed;
    store.releaseReads();
    await appended;
    const sent = store.records.filter((_, index) => store.appends[index]?.writes[0]?.stream === a);
    expect(sent.length).toBeGreaterThan(1);
    for (const record of sent) expect(record.equals(sent[0] ?? Buffer.alloc(0))).toBe(true);
  });
});

describe('an engine that does not answer', () => {
  const timing = { queueTimeoutMs: 150, outcomeTimeoutMs: 300, stalledMs: 250, stalledReadMs: 200, retryMs: 5 };

  it('makes sent appends unknown and waiting ones refused after their times, and recovers', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect(), { timing });
    store.holdAppends();
    const sent = replica.log.append([write(a, 'any', noted({ n: 0 }))]);
    await turns(5);
    const waiting = replica.log.append([write(a, 'any', noted({ n: 1 }))]);
    const results = await Promise.allSettled([sent, waiting]);
    expect(results).toMatchObject([{ reason: { outcome: 'unknown' } }, { reason: { outcome: 'none' } }]);
    expect(replica.log.status().state).toBe('unavailable');
    await expect(replica.log.append([write(a, 'any', noted({ n: 2 }))])).rejects.toMatchObject({ outcome: 'none' });
    store.releaseAppends();
    await whenState(replica.log, 'ok');
    await replica.log.append([write(a, 'any', noted({ n: 3 }))]);
    const all = (await collect(replica.log.readAll())).map(({ data }) => (data as { n: number }).n);
    expect(all.filter((n) => n !== 0)).toEqual([3]);
    expect(all.filter((n) => n === 0).length).toBeLessThanOrEqual(1);
    await replica.dispose();
  });

  it('that acknowledges appends but returns none makes them unknown, and the state unavailable', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect(), { timing });
    store.holdReads();
    await expect(replica.log.append([write(a, 'any', noted({ n: 0 }))])).rejects.toMatchObject({ outcome: 'unknown' });
    expect(replica.log.status().state).toBe('unavailable');
    store.releaseReads();
    await whenState(replica.log, 'ok');
    expect(await collect(replica.log.readAll())).toHaveLength(1);
    await replica.dispose();
  });

  it('does not begin anew to read a long log whose end it has not reached', async () => {
    let reads: number | undefined;
    const slowly = () => {
      if (reads === undefined) return 0;
      // as a large batch does; more in all than the time after which an append without an answer counts as stalled
      for (const end = performance.now() + 3; performance.now() < end; );
      reads++;
      return 1;
    };
    const store = new MemoryEngineStore({ readTurns: slowly, batchSize: () => 1 });
    const replica = await Replica.open(() => store.connect(), { timing });
    const many = Array.from({ length: 200 }, (_, n) => replica.log.append([write(a, 'any', noted({ n }))]));
    await Promise.all(many);
    const delays: string[] = [];
    reads = 0;
    const began = performance.now();
    const options = { timing: { ...timing, stalledReadMs: 250 }, onDelay: (reason: string) => delays.push(reason) };
    const other = await Replica.open(() => store.connect(), options);
    expect(performance.now() - began).toBeGreaterThan(500);
    expect(delays).toEqual([]);
    expect(reads).toBeGreaterThanOrEqual(200);
    await Promise.all([replica.dispose(), other.dispose()]);
  });

  describe('for some time', () => {
    const patient = {
      queueTimeoutMs: 60_000,
      outcomeTimeoutMs: 60_000,
      stalledMs: 100,
      stalledReadMs: 60_000,
      retryMs: 5,
    };

    it.each([
      ['acknowledgements', 'has not acknowledged', (store: MemoryEngineStore) => store.holdAppends()],
      ['events', 'has not returned', (store: MemoryEngineStore) => store.holdReads()],
    ])(
      'refuses new appends and those that wait; sent ones succeed when it goes on: %s',
      async (_what, reason, hold) => {
        const store = new MemoryEngineStore();
        const replica = await Replica.open(() => store.connect(), { timing: patient });
        hold(store);
        const sent = replica.log.append([write(a, 'any', noted({ n: 0 }))]);
        await whenState(replica.log, 'unavailable');
        expect(replica.log.status().reason).toContain(reason);
        await expect(replica.log.append([write(a, 'any', noted({ n: 1 }))])).rejects.toMatchObject({ outcome: 'none' });
        store.releaseAppends();
        store.releaseReads();
        await sent;
        await whenState(replica.log, 'ok');
        expect(await collect(replica.log.readAll())).toHaveLength(1);
        await replica.dispose();
      },
    );

    it('keeps the log unavailable while tests take as long', async () => {
      const store = new MemoryEngineStore();
      const replica = await Replica.open(() => store.connect(), { timing: patient });
      const states: string[] = [];
      replica.log.onStatusChange(({ state }) => states.push(state));
      store.holdReads();
      const sent = replica.log.append([write(a, 'any', noted({ n: 0 }))]);
      await whenState(replica.log, 'unavailable');
      const before = store.records.length;
      await expect.poll(() => store.records.length).toBeGreaterThan(before);
      // A time: the state must not change in it.
      await new Promise((resolve) => setTimeout(resolve, 2 * patient.stalledMs));
      store.releaseReads();
      await sent;
      const later = store.records.length;
      await whenState(replica.log, 'ok');
      expect(store.records.length).toBeGreaterThan(later);
      expect(states).toEqual(['unavailable', 'ok']);
      await replica.dispose();
    });
  });

  it('does not delay the close of a log by the time between two attempts', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect(), { timing: { ...timing, retryMs: 60_000 } });
    store.stop();
    await whenState(replica.log, 'unavailable');
    await replica.log.close();
    await replica.dispose();
  });

  it('does not keep a log from being closed', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect(), { timing });
    store.holdAppends();
    const sent = replica.log.append([write(a, 'any', noted({ n: 0 }))]).catch((error: unknown) => error);
    await turns(5);
    await replica.log.close();
    expect(await sent).toMatchObject({ outcome: 'unknown' });
    await replica.dispose();
  });
});
