import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { LogDiverged } from '../../../src/events/replicated/engine.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { hasPosition, linesOf, whenState } from '../../contract/recovery.ts';
import { MemoryEngineStore, turns } from '../../support/memory-engine.ts';
import { checkpointFiles, Replica, temporaryFolder } from '../../support/replicas.ts';

const a = streamName('thing', 'a');

describe('a replica that has events which its engine has not', () => {
  let store: MemoryEngineStore;
  let ahead: Replica;
  let other: Replica;

  const append = async ({ log }: Replica, from: number, count: number): Promise<void> => {
    for (let n = from; n < from + count; n++) await log.append([write(a, 'any', noted({ n }))]);
  };
  const numbers = async ({ log }: Replica): Promise<unknown[]> =>
    (await collect(log.readAll())).map(({ data }) => (data as { n: number }).n);

  beforeEach(async () => {
    store = new MemoryEngineStore();
    ahead = await Replica.open(() => store.connect());
    await append(ahead, 0, 5);
  });
  afterEach(() => Promise.all([ahead.dispose(), other?.dispose()]));

  /** Closes the replica, lets the engine forget its last appends, and lets another gateway append. */
  const loseTheEnd = async (lost: number, appended: number): Promise<void> => {
    await ahead.log.close();
    store.truncate(store.records.length - lost);
    other = await Replica.open(() => store.connect());
    await append(other, 100, appended);
  };

  it.each([
    ['and ends before the place of the replica', 3, 0],
    ['and has grown to the place of the replica', 3, 2],
    ['and has grown beyond the place of the replica', 3, 20],
  ])('is refused at its opening when the engine lost its end %s', async (_, lost, appended) => {
    await loseTheEnd(lost, appended);
    await expect(ahead.reopen()).rejects.toThrow(/\w/);
    expect(await numbers(other)).toEqual([0, 1, ...Array.from({ length: appended }, (__, n) => 100 + n)]);
  });

  it('is refused although its checkpoint is gone', async () => {
    await loseTheEnd(3, 2);
    await expect(ahead.reopen({ without: 'its checkpoint' })).rejects.toThrow(/\w/);
  });

  it.each([
    ['the engine lost its end', undefined],
    ['the engine lost its end, and the checkpoint is gone', 'its checkpoint'],
  ] as const)('is refused at each restart, and nothing is appended, when %s', async (_, without) => {
    await ahead.log.close();
    store.truncate(store.records.length - 3);
    const { length } = store.records;
    await expect(ahead.reopen(without === undefined ? {} : { without })).rejects.toThrow(LogDiverged);
    for (let n = 0; n < 10; n++) await expect(ahead.reopen()).rejects.toThrow(LogDiverged);
    expect(store.records).toHaveLength(length);
  });

  it('is refused, and nothing is appended, when its latest events are behind its checkpoint and the engine lost them', async () => {
    const [file = ''] = await checkpointFiles(ahead.dir);
    await ahead.reopen();
    const earlier = await readFile(file);
    await append(ahead, 5, 3);
    await ahead.log.close();
    await writeFile(file, earlier);
    store.truncate(store.records.length - 2);
    const { length } = store.records;
    for (let n = 0; n < 3; n++) {
      await expect(ahead.reopen()).rejects.toThrow('the engine ends at 6, the replica at 8');
    }
    expect(store.records).toHaveLength(length);
  });

  it('waits for its latest events, and appends nothing until they were read', async () => {
    const [file = ''] = await checkpointFiles(ahead.dir);
    await ahead.reopen();
    const earlier = await readFile(file);
    await append(ahead, 5, 3);
    await ahead.log.close();
    await writeFile(file, earlier);
    store.holdReads();
    const { length } = store.records;
    const opening = ahead.reopen();
    store.holdAppends();
    await turns(50);
    expect(store.records).toHaveLength(length);
    store.releaseAppends();
    store.releaseReads();
    await opening;
    expect(await numbers(ahead)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('is refused when a backup of it from before the loss is restored after the engine has grown again', async () => {
    await ahead.log.close();
    const backup = await temporaryFolder();
    await cp(ahead.dir, backup, { recursive: true });
    store.truncate(store.records.length - 3);
    await ahead.reopen({ without: 'its folder' });
    await append(ahead, 100, 20);
    await expect(Replica.open(() => store.connect(), { dir: backup })).rejects.toThrow(LogDiverged);
    await rm(backup, { recursive: true });
  });

  it.each([
    ['its end and has grown beyond the place', (records: Buffer[]) => records.slice(0, -3)],
    ['everything and has grown beyond the place', () => []],
  ])(
    'stops while it is open, also when its reader noticed nothing, when the engine lost %s',
    async (_, left) => {
      await ahead.reopen();
      const another = new MemoryEngineStore();
      another.records.push(...left(store.records));
      other = await Replica.open(() => another.connect());
      await append(other, 100, 20);
      // without a word to the readers, as when the process was suspended meanwhile
      store.records.splice(0, store.records.length, ...another.records);
      await whenState(ahead.log, 'unavailable');
      expect(ahead.log.status().reason).toMatch('does not match the log on its engine');
      await expect(append(ahead, 50, 1)).rejects.toMatchObject({ code: 'log_unavailable' });
      await ahead.log.close();
      await expect(ahead.reopen()).rejects.toThrow(LogDiverged);
    },
    20_000,
  );

  it('stops at the first append of another history, without waiting for the next comparison', async () => {
    const quick = await Replica.open(() => store.connect(), { timing: { verifyMs: 3_600_000 } });
    const another = new MemoryEngineStore();
    other = await Replica.open(() => another.connect());
    await append(other, 100, 20);
    store.records.splice(0, store.records.length, ...another.records);
    store.record(store.records.at(-1) ?? Buffer.alloc(0));
    await whenState(quick.log, 'unavailable');
    await quick.dispose();
  });

  it('goes on when a gateway of another log appends to its engine', async () => {
    await ahead.reopen();
    const another = new MemoryEngineStore();
    other = await Replica.open(() => another.connect());
    await append(other, 100, 20);
    for (const record of another.records) store.record(record);
    await append(ahead, 5, 1);
    const fresh = await Replica.open(() => store.connect());
    expect(await numbers(fresh)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(ahead.log.status().state).toBe('ok');
    await fresh.dispose();
  });

  it('has the log of the engine after its folder was deleted', async () => {
    await loseTheEnd(3, 2);
    await ahead.reopen({ without: 'its folder' });
    expect(await linesOf(ahead.log)).toEqual(await linesOf(other.log));
  });

  it('stops appending and says why when it is open at that time', async () => {
    other = await Replica.open(() => store.connect());
    await hasPosition(other.log, await ahead.log.head());
    // the end is lost, and another gateway that had not read it goes on
    const third = await Replica.open(() => store.connect());
    await third.log.close();
    store.truncate(store.records.length - 4);
    store.dropReaders();
    await whenState(ahead.log, 'unavailable');
    expect(ahead.log.status().reason).toMatch(/\w/);
    await expect(append(ahead, 50, 1)).rejects.toMatchObject({ code: 'log_unavailable' });
    await third.dispose();
  });

  it('does not make the engine unusable by an append that it sent before it noticed', async () => {
    const behind = await Replica.open(() => store.connect());
    store.records.length -= 3;
    const late = ahead.log.append([write(a, 'any', noted({ n: 50 }))]).catch((error: unknown) => error);
    await whenState(ahead.log, 'unavailable');
    expect(store.appends.some(({ seen }) => seen.position === 5)).toBe(true);
    await behind.dispose();
    other = await Replica.open(() => store.connect());
    await append(other, 100, 3);
    await other.reopen();
    await append(other, 103, 1);
    expect((await numbers(other)).slice(-4)).toEqual([100, 101, 102, 103]);
    await ahead.reopen({ without: 'its folder' });
    expect(await linesOf(ahead.log)).toEqual(await linesOf(other.log));
    expect(await late).toMatchObject({ code: 'log_unavailable' });
  });

  it('of another log is refused', async () => {
    const another = new MemoryEngineStore();
    other = await Replica.open(() => another.connect());
    await append(other, 100, 20);
    await ahead.log.close();
    await expect(Replica.open(() => another.connect(), { dir: ahead.dir })).rejects.toThrow(/\w/);
    expect(await numbers(other)).toHaveLength(20);
  });

  it('of another log, which is empty, is refused, and nothing of it is appended there', async () => {
    const empty = new MemoryEngineStore();
    await ahead.log.close();
    await expect(Replica.open(() => empty.connect(), { dir: ahead.dir })).rejects.toThrow(/\w/);
    expect(empty.records).toEqual([]);
    other = await Replica.open(() => empty.connect());
    await append(other, 0, 1);
  });
});

describe('a replica whose engine was replaced behind it', () => {
  const append = async ({ log }: Replica, from: number, count: number): Promise<void> => {
    for (let n = from; n < from + count; n++) await log.append([write(a, 'any', noted({ n }))]);
  };
  const isDegraded = ({ log }: Replica) => expect.poll(() => log.status().degraded).toMatch(/has read another log/);

  it('and the others report it; each compares itself with the engine at its next start, and it is refused', async () => {
    const store = new MemoryEngineStore();
    const replaced = await Replica.open(() => store.connect());
    await append(replaced, 0, 5);
    // the last appends are lost, and others have taken their places before its reader looked
    const fork = new MemoryEngineStore();
    fork.records.push(...store.records.slice(0, -3));
    const lost = store.records.at(-1) ?? Buffer.alloc(0);
    const forked = await Replica.open(() => fork.connect());
    await append(forked, 100, 10);
    await forked.dispose();
    store.records.splice(0, store.records.length, ...fork.records);

    const warnings: string[] = [];
    const warn = (message: string) => warnings.push(message);
    const healthy = await Replica.open(() => store.connect(), { warn, timing: { conflictMs: 200 } });
    expect(healthy.log.status().degraded).toBeUndefined();
    await whenState(replaced.log, 'unavailable');
    // as from a gateway that has not noticed yet
    store.record(lost);
    await isDegraded(healthy);
    // the other one answers nothing any more
    await whenState(healthy.log, 'ok');
    await append(healthy, 200, 1);
    expect(healthy.log.status().state).toBe('ok');
    expect(warnings.filter((message) => message.includes('another log'))).toHaveLength(1);
    await expect(replaced.reopen()).rejects.toThrow(/Keep the folder.*run-book "/);
    await healthy.reopen();
    expect(healthy.log.status().degraded).toBeUndefined();
    const fresh = await Replica.open(() => store.connect());
    expect(fresh.log.status().degraded).toBeUndefined();
    expect(await linesOf(healthy.log)).toEqual(await linesOf(fresh.log));
    expect((await collect(fresh.log.readAll())).map(({ data }) => (data as { n: number }).n)).not.toContain(4);
    await append(healthy, 201, 1);
    await healthy.reopen();
    await hasPosition(fresh.log, await healthy.log.head());
    expect(await linesOf(healthy.log)).toEqual(await linesOf(fresh.log));
    await Promise.all([replaced.dispose(), healthy.dispose(), fresh.dispose()]);
  });
});

describe('an engine with a damaged record', () => {
  it('is refused by a replica that has to read it, with the reason; one that has read it goes on', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect());
    for (let n = 0; n < 5; n++) await replica.log.append([write(a, 'any', noted({ n }))]);
    store.damage(store.records.length - 3);
    const dir = await temporaryFolder();
    await expect(Replica.open(() => store.connect(), { dir })).rejects.toThrow(/damaged/);
    await replica.reopen();
    await replica.log.append([write(a, 4n, noted({ n: 5 }))]);
    expect(await collect(replica.log.readAll())).toHaveLength(6);
    await replica.dispose();
  });
});

describe('a record that was damaged on its way', () => {
  let store: MemoryEngineStore;
  let replica: Replica;
  const next = () => store.records.length - 1;
  beforeEach(async () => {
    store = new MemoryEngineStore();
    replica = await Replica.open(() => store.connect());
  });
  afterEach(() => replica.dispose());

  it('is read again by a log that is open, which then goes on', async () => {
    store.holdReads();
    const appended = replica.log.append([write(a, 'any', noted({ n: 0 }))]);
    await expect.poll(() => store.appends.some(({ writes }) => writes.length > 0)).toBe(true);
    const index = next();
    store.damage(index);
    store.releaseReads();
    await whenState(replica.log, 'unavailable');
    expect(replica.log.status().reason).toMatch('damaged');
    store.damage(index);
    await appended;
    await whenState(replica.log, 'ok');
    await replica.log.append([write(a, 0n, noted({ n: 1 }))]);
    expect(await collect(replica.log.readAll())).toHaveLength(2);
  });

  it('is read again by a log that is being opened', async () => {
    await replica.log.append([write(a, 'any', noted({ n: 0 }))]);
    const index = next();
    store.damage(index);
    const reasons: string[] = [];
    const onDelay = (reason: string) => {
      reasons.push(reason);
      if (reasons.length === 1) store.damage(index);
    };
    const other = await Replica.open(() => store.connect(), { onDelay });
    expect(reasons).toEqual(['memory: an append is damaged']);
    expect(await linesOf(other.log)).toEqual(await linesOf(replica.log));
    await other.dispose();
  });
});

describe('an engine whose beginning is gone', () => {
  it('serves replicas that have it, and is refused by those that have not', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect());
    for (let n = 0; n < 5; n++) await replica.log.append([write(a, 'any', noted({ n }))]);
    await replica.log.close();
    store.forgetBefore(store.records.length);
    await expect(Replica.open(() => store.connect())).rejects.toThrow(/\w/);
    const reopened = await Replica.open(() => store.connect(), { dir: replica.dir });
    await reopened.log.append([write(a, 4n, noted({ n: 5 }))]);
    expect(await collect(reopened.log.readAll())).toHaveLength(6);
    await reopened.log.close();
    await expect(reopened.reopen({ without: 'its checkpoint' })).rejects.toThrow(/\w/);
    await reopened.dispose();
  });
});
