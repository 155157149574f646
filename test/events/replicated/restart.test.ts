import { copyFileSync, cpSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EmbeddedLog } from '../../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../../src/events/event.ts';
import { mintEventId } from '../../../src/events/event-id.ts';
import { EventIdReused } from '../../../src/events/log.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { hasPosition, linesOf, whenState } from '../../contract/recovery.ts';
import { MemoryEngineStore, turns } from '../../support/memory-engine.ts';
import { checkpointFiles, Replica, temporaryFolder } from '../../support/replicas.ts';
import { fileOf } from '../log-files.ts';

const a = streamName('thing', 'a');
const b = streamName('thing', 'b');

function copyFolder(from: string, to: string): void {
  // reading the lock would release it
  cpSync(from, to, { recursive: true, filter: (file) => !file.endsWith('writer.lock') });
}

describe('a replica that is opened again', () => {
  let store: MemoryEngineStore;
  let replica: Replica;
  let other: Replica;
  const opened: Replica[] = [];

  const open = async (dir?: string): Promise<Replica> => {
    const one = await Replica.open(() => store.connect(), dir === undefined ? {} : { dir });
    opened.push(one);
    return one;
  };
  beforeEach(async () => {
    store = new MemoryEngineStore();
    [replica, other] = [await open(), await open()];
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.dispose()));
  });

  const append = async ({ log }: Replica, from: number, count: number): Promise<void> => {
    for (let n = from; n < from + count; n++) {
      await log.append([write(n % 2 ? a : b, 'any', noted({ n }, { body: Buffer.alloc(100, n) }))]);
    }
  };
  const sameLogs = async (...replicas: Replica[]): Promise<void> => {
    const { position } = await other.log.append([write(a, 'any', noted({ n: 'last' }))]);
    const expected = await (async () => {
      await hasPosition(other.log, position);
      return linesOf(other.log);
    })();
    for (const { log } of replicas) {
      await hasPosition(log, position);
      expect(await linesOf(log)).toEqual(expected);
    }
  };
  const checkpointOf = async (dir: string): Promise<string> => {
    const [file, ...more] = await checkpointFiles(dir);
    if (file === undefined || more.length > 0) throw new Error(`${dir} has no checkpoint, or several`);
    return file;
  };

  it('has everything again after its folder was removed while it was idle: until then it is unavailable', async () => {
    await append(replica, 0, 4);
    rmSync(replica.dir, { recursive: true });
    await expect
      .poll(() => replica.log.status(), { timeout: 5_000 })
      .toMatchObject({ state: 'unavailable', reason: expect.stringContaining(`no longer in ${replica.dir}`) });
    await replica.log.close();
    await replica.reopen();
    await append(replica, 4, 4);
    await sameLogs(replica, other);
  });

  it('with an older checkpoint than its events has the same log', async () => {
    await append(replica, 0, 10);
    await replica.reopen();
    const older = readFileSync(await checkpointOf(replica.dir));
    await append(replica, 10, 10);
    await replica.log.append([write(a, 'noStream', noted({ n: 'refused' }))]).catch(() => {});
    await append(other, 20, 10);
    await replica.log.close();
    writeFileSync(await checkpointOf(replica.dir), older);
    const again = await open(replica.dir);
    await sameLogs(again);
    await append(again, 30, 5);
    await sameLogs(again);
  });

  it('waits for a reader that yields nothing for a while, as long as the engine has more than it has read', async () => {
    await append(replica, 0, 10);
    await replica.reopen();
    const older = readFileSync(await checkpointOf(replica.dir));
    await append(replica, 10, 10);
    await replica.log.close();
    writeFileSync(await checkpointOf(replica.dir), older);
    store.holdReads();
    const stalledReadMs = 100;
    const opening = Replica.open(() => store.connect(), { dir: replica.dir, timing: { stalledReadMs } });
    const early = await Promise.race([opening.then(String, String), delay(4 * stalledReadMs)]);
    store.releaseReads();
    const again = await opening;
    opened.push(again);
    expect(early).toBeUndefined();
    await sameLogs(again);
  });

  it('tells an append that was refused from an accepted one that begins with the same event', async () => {
    const [x, y] = [noted({ n: 'x' }, { id: mintEventId() }), noted({ n: 'y' }, { id: mintEventId() })];
    await expect(replica.log.append([write(a, 'exists', x, y)])).rejects.toThrow();
    await replica.log.append([write(a, 'noStream', x)]);
    await other.log.append([write(a, 0n, y)]);
    await append(replica, 0, 3);
    await replica.reopen({ without: 'its checkpoint' });
    await sameLogs(replica, await open());
  });

  it('with a newer checkpoint than its events has the same log', async () => {
    await append(replica, 0, 10);
    await replica.log.close();
    const earlier = await temporaryFolder();
    copyFolder(replica.dir, earlier);
    await replica.reopen();
    await append(replica, 10, 10);
    await replica.log.close();
    copyFileSync(await checkpointOf(replica.dir), await checkpointOf(earlier));
    const again = await open(earlier);
    await sameLogs(again);
    await append(again, 30, 5);
    await sameLogs(again);
  });

  it.each(['', '{', 'null', '{"format":"chancery-replica","version":1}'])(
    'with the checkpoint %j reads everything again',
    async (content) => {
      await append(replica, 0, 10);
      await replica.log.close();
      writeFileSync(await checkpointOf(replica.dir), content);
      const again = await open(replica.dir);
      await sameLogs(again);
    },
  );

  it('after a write that was torn records no event about it, and has the same log', async () => {
    await append(replica, 0, 10);
    const crashed = await temporaryFolder();
    copyFolder(replica.dir, crashed);
    const durable = readFileSync(path.join(replica.dir, 'durable'));
    const end = readFileSync(fileOf(crashed, '.seg')).findLastIndex((byte) => byte !== 0) + 1;
    await append(replica, 10, 1);
    await replica.log.close();
    copyFolder(replica.dir, crashed);
    writeFileSync(path.join(crashed, 'durable'), durable);
    truncateSync(fileOf(crashed, '.seg'), end + 20);
    const again = await open(crashed);
    await sameLogs(again);
    expect((await collect(again.log.readAll())).filter(({ type }) => type !== 'thing.noted')).toEqual([]);
  });

  it('in the middle of its appends, without closing, at any moment', { timeout: 60_000 }, async () => {
    const copies: string[] = [];
    const appends: Promise<unknown>[] = [];
    for (let n = 0; n < 40; n++) {
      const { log } = n % 3 ? replica : other;
      // some are refused
      appends.push(log.append([write(a, n % 4 ? 'any' : 'noStream', noted({ n }), noted({ n }))]).catch(() => {}));
      await turns(n % 5);
      if (n % 8 !== 0) continue;
      const copy = await temporaryFolder();
      copyFolder(replica.dir, copy);
      copies.push(copy);
    }
    await Promise.all(appends);
    const reopened = await Promise.all(copies.map((copy) => open(copy)));
    await sameLogs(replica, ...reopened);
  });

  it('ignores an append of its earlier process that lands late a second time', async () => {
    const engine = store.connect();
    const first = await Replica.open(() => engine);
    opened.push(first);
    engine.nextAppends.push({ kind: 'late', after: 100_000 });
    await first.log.append([write(a, 'any', noted({ n: 'late' }))]);
    await first.log.close();
    // far more events than the ids that are kept
    const many = Array.from({ length: 10_000 }, (_, n) => noted({ n }));
    for (let round = 0; round < 7; round++) await other.log.append([write(b, 'any', ...many)]);
    await replica.reopen();
    const again = await open(first.dir);
    store.landLate();
    await sameLogs(replica, again, await open());
    const late = (await collect(again.log.readStream(a))).filter(({ data }) => (data as { n: unknown }).n === 'late');
    expect(late).toHaveLength(1);
  });

  it('lets an append of its earlier process that lands late for the first time be recorded, once', async () => {
    const engine = store.connect();
    const timing = { queueTimeoutMs: 100, outcomeTimeoutMs: 100, retryMs: 5 };
    const first = await Replica.open(() => engine, { timing });
    opened.push(first);
    engine.nextAppends.push({ kind: 'late', after: 100_000 }, ...Array(1_000).fill({ kind: 'lost' }));
    const writes = [write(a, 'any', noted({ n: 0 }, { id: mintEventId() }))];
    await expect(first.log.append(writes)).rejects.toMatchObject({ outcome: 'unknown' });
    await first.log.close();
    const appended = await replica.log.append(writes);
    store.landLate();
    await sameLogs(replica, await open(first.dir));
    expect(await replica.log.append(writes)).toEqual(appended);
    expect(await collect(other.log.readStream(a))).toHaveLength(2);
  });

  it('decides about the oldest of the kept ids as a replica that was not opened again', {
    timeout: 60_000,
  }, async () => {
    const keptIds = 65_536;
    const oldest = Array.from({ length: 6 }, (_, n) => noted({ n }, { id: mintEventId() }));
    await replica.log.append([write(a, 'any', ...oldest.slice(0, 3))]);
    await replica.log.append([write(a, 'any', ...oldest.slice(3))]);
    const more = Array.from({ length: keptIds - 4 }, (_, n) => noted({ n }));
    await other.log.append([write(b, 'any', ...more)]);
    // the ids of 0 and 1 are forgotten, that of 2 is the oldest one
    await replica.reopen();
    const appendAgain = (n: number, { log }: Replica) => log.append([write(a, 'any', ...oldest.slice(n, n + 1))]);
    await expect(appendAgain(2, other)).rejects.toBeInstanceOf(EventIdReused);
    // the reopened one does not know where appends begin, but it records nothing either
    const head = await replica.log.head();
    await Promise.allSettled([appendAgain(2, replica)]);
    expect(await replica.log.head()).toBe(head);
    await Promise.allSettled([0, 1, 2].flatMap((n) => [replica, other].map((one) => appendAgain(n, one))));
    await sameLogs(replica, await open());
  });

  it('cannot be opened twice at the same time, and the first goes on', async () => {
    await append(replica, 0, 3);
    await expect(open(replica.dir)).rejects.toMatchObject({ code: 'log_locked' });
    await append(replica, 3, 3);
    await sameLogs(replica);
  });

  it('is not opened as an embedded log, which would append to it', async () => {
    await append(replica, 0, 3);
    await replica.log.close();
    await expect(EmbeddedLog.open(replica.dir)).rejects.toThrow(/\w/);
    await sameLogs(await open(replica.dir));
  });

  it('catches up from a copy of another replica that was made while that one was open', async () => {
    await append(replica, 0, 30);
    const copy = await temporaryFolder();
    copyFolder(replica.dir, copy);
    await append(replica, 30, 10);
    await sameLogs(await open(copy), replica);
  });

  it('waits for an engine that is stopped', async () => {
    await append(replica, 0, 5);
    await replica.log.close();
    store.stop();
    const opening = open(replica.dir);
    await turns(20);
    store.start();
    for (const { log } of [await opening, other]) await whenState(log, 'ok');
    await sameLogs(await opening);
  });

  it('keeps a checkpoint of a size that does not grow with the number of appends', async () => {
    await append(replica, 0, 10);
    await replica.reopen();
    const small = statSync(await checkpointOf(replica.dir)).size;
    await append(replica, 10, 500);
    await replica.reopen();
    expect(statSync(await checkpointOf(replica.dir)).size).toBeLessThan(small + 500);
  });
});

describe('an append with unusual writes', () => {
  it.each([
    ['70,000 writes', Array.from({ length: 70_000 }, (_, n) => write(streamName('thing', String(n)), 'any', noted()))],
    ['a stream name of 70,000 bytes and no events', [write(streamName('thing', 'x'.repeat(70_000)), 'any')]],
    ['a stream name of 70,000 bytes', [write(streamName('thing', 'x'.repeat(70_000)), 'any', noted())]],
    ['no writes', []],
    ['a write without events', [write(a, 'noStream')]],
    ['a revision beyond 2^53', [write(a, 2n ** 60n, noted())]],
  ])('of %s is accepted or refused, and those after it are accepted', async (_, writes) => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect());
    await replica.log.append([write(b, 'any', noted())]);
    const odd = replica.log.append(writes).then(
      () => 'accepted',
      (error: Error) => error.constructor.name,
    );
    const { revisions } = await replica.log.append([write(b, 'any', noted({ n: 'after' }))]);
    expect(revisions).toEqual([1n]);
    await expect(odd).resolves.toMatch(/\w/);
    const fresh = await Replica.open(() => store.connect());
    expect(await linesOf(fresh.log)).toEqual(await linesOf(replica.log));
    await Promise.all([replica.dispose(), fresh.dispose()]);
  });
});
