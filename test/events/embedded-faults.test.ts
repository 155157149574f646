import { spawn, spawnSync } from 'node:child_process';
import { cpSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { EmbeddedLog, EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { type NewEvent, streamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { LogUnavailable, type StreamWrite } from '../../src/events/log.ts';
import { collect } from '../contract/event-log.ts';
import { type FaultyDisk, faultyDisk } from './faulty-disk.ts';
import {
  appendThing,
  appendThings,
  fileOf,
  filesOf,
  openTestLog,
  readAll,
  readThings,
  temporaryDirectory,
  thing,
  until,
  upTo,
} from './log-files.ts';

const soon: EmbeddedLogOptions = { commit: { probeMs: 5 } };

async function faultyLog(options: EmbeddedLogOptions = soon) {
  const dir = temporaryDirectory();
  const disk = faultyDisk();
  const log = await openTestLog(dir, { ...options, disk });
  return { dir, disk, log };
}

async function becomesOk(log: EmbeddedLog): Promise<void> {
  if (log.status().state === 'ok') return;
  await new Promise<void>((resolve) => {
    const stop = log.onStatusChange(({ state }) => {
      if (state !== 'ok') return;
      stop();
      resolve();
    });
  });
}

async function failureOf(append: Promise<unknown>): Promise<LogUnavailable> {
  const error = await append.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LogUnavailable);
  return error as LogUnavailable;
}

describe('when the disk refuses writes', () => {
  it.each(['ENOSPC', 'EIO', 'EROFS', 'EDQUOT', 'EFBIG', 'EACCES'])(
    '%s: refuses the append, keeps what there was, and goes on by itself when the disk does',
    async (code) => {
      const { dir, disk, log } = await faultyLog();
      await appendThings(log, 0, 3);
      const size = statSync(fileOf(dir, '.seg')).size;
      disk.failWrites(code);
      const error = await failureOf(appendThing(log, 99));
      expect(error.outcome).toBe('none');
      expect(error.message).toContain(code);
      expect(log.status()).toMatchObject({ state: 'unavailable', reason: expect.stringContaining(code) });
      expect(statSync(fileOf(dir, '.seg')).size).toBe(size);
      disk.failWrites(undefined);
      await becomesOk(log);
      await appendThings(log, 3, 2);
      expect(await readThings(log)).toEqual(upTo(5));
      await log.close();
      const reopened = await openTestLog(dir);
      expect(reopened.recovery).toBeUndefined();
      expect(await readThings(reopened)).toEqual(upTo(5));
    },
  );

  it('leaves nothing of a batch that was written in part', async () => {
    const { dir, disk, log } = await faultyLog();
    await appendThings(log, 0, 2);
    const before = readFileSync(fileOf(dir, '.seg'));
    disk.failWrites('ENOSPC', 70);
    await failureOf(appendThing(log, 99));
    expect(readFileSync(fileOf(dir, '.seg'))).toEqual(before);
  });

  it('appends correctly behind a part that it could not cut off', async () => {
    const { disk, log, dir } = await faultyLog();
    await appendThings(log, 0, 2);
    disk.failWrites('ENOSPC', 70);
    disk.failTruncates('EIO');
    await failureOf(appendThing(log, 99));
    expect(await readThings(log)).toEqual([0, 1]);
    disk.failWrites(undefined);
    disk.failTruncates(undefined);
    await becomesOk(log);
    await appendThings(log, 2, 2);
    expect(await readThings(log)).toEqual(upTo(4));
    await log.close();
    expect(await readThings(await openTestLog(dir))).toEqual(upTo(4));
  });

  it('reuses the revisions and positions of refused appends', async () => {
    const { disk, log } = await faultyLog();
    const old = streamName('thing', 'old');
    const fresh = streamName('thing', 'fresh');
    const { position } = await log.append([{ stream: old, events: [thing(0)], expectedRevision: 'noStream' }]);
    disk.failWrites('ENOSPC');
    const refused = await Promise.allSettled([
      log.append([{ stream: old, events: [thing(1), thing(2)], expectedRevision: 0n }]),
      log.append([{ stream: old, events: [thing(3)], expectedRevision: 2n }]),
      log.append([{ stream: fresh, events: [thing(4)], expectedRevision: 'noStream' }], { until: 'written' }),
    ]);
    for (const { status } of refused) expect(status).toBe('rejected');
    disk.failWrites(undefined);
    await becomesOk(log);
    const appended = await log.append([
      { stream: old, events: [thing(5)], expectedRevision: 0n },
      { stream: fresh, events: [thing(6)], expectedRevision: 'noStream' },
    ]);
    expect(appended.revisions).toEqual([1n, 0n]);
    expect(Number(appended.position)).toBe(Number(position) + 2);
  });

  it('refuses further appends at once, without touching the disk', async () => {
    const { disk, log } = await faultyLog({ commit: { probeMs: 60_000 } });
    disk.failWrites('ENOSPC');
    await failureOf(appendThing(log, 0));
    let touched = 0;
    disk.beforeChange = () => {
      touched++;
    };
    for (let n = 0; n < 10; n++) expect((await failureOf(appendThing(log, n))).outcome).toBe('none');
    expect(touched).toBe(0);
  });

  it('notifies its listeners once of the failure and once of the recovery', async () => {
    const { disk, log } = await faultyLog();
    const states: string[] = [];
    log.onStatusChange(({ state }) => states.push(state));
    disk.failWrites('ENOSPC');
    await failureOf(appendThing(log, 0));
    await failureOf(appendThing(log, 1));
    disk.failWrites(undefined);
    await becomesOk(log);
    await appendThing(log, 0);
    expect(states).toEqual(['unavailable', 'ok']);
  });

  it('continues in the old segment when a new one cannot be created', async () => {
    const { dir, disk, log } = await faultyLog({ ...soon, segmentBytes: 500, seal: false });
    disk.failCreations('EMFILE');
    await appendThings(log, 0, 10);
    expect(filesOf(dir, '.seg')).toHaveLength(1);
    disk.failCreations(undefined);
    await appendThings(log, 10, 2);
    expect(filesOf(dir, '.seg').length).toBeGreaterThan(1);
    expect(await readThings(log)).toEqual(upTo(12));
  });
});

describe('events with ids whose append failed', () => {
  async function faultyAppend() {
    const { dir, disk, log } = await faultyLog();
    const events = [{ ...thing(0), id: mintEventId() }];
    const stream = streamName('thing', '0');
    const append = () => log.append([{ stream, events, expectedRevision: 'any' }]);
    return { dir, disk, log, append };
  }

  it('are recorded once by the next attempt, when nothing had been written', async () => {
    const { disk, log, append } = await faultyAppend();
    disk.failWrites('ENOSPC');
    expect((await failureOf(append())).outcome).toBe('none');
    disk.failWrites(undefined);
    await becomesOk(log);
    const { position } = await append();
    expect((await append()).position).toBe(position);
    expect(await readThings(log)).toEqual([0]);
  });

  it('are recorded once, when the outcome of the first append was unknown', async () => {
    const { disk, log, append } = await faultyAppend();
    disk.failSyncs('EIO');
    expect((await failureOf(append())).outcome).toBe('unknown');
    expect((await failureOf(append())).outcome).toBe('unknown');
    disk.failSyncs(undefined);
    await becomesOk(log);
    await append();
    expect(await readThings(log)).toEqual([0]);
  });

  it('are recorded once over a restart, when the writes say where', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir);
    const [a, b] = ['a', 'b'].map((id) => streamName('thing', id));
    if (a === undefined || b === undefined) throw new Error('there are two');
    await log.append([{ stream: a, events: [thing(0)], expectedRevision: 'noStream' }]);
    const events = [1, 2].map((n) => ({ ...thing(n), id: mintEventId() }));
    const writes: StreamWrite[] = [
      { stream: a, events, expectedRevision: 0n },
      { stream: b, events: [{ ...thing(3), id: mintEventId() }], expectedRevision: 'noStream' },
    ];
    const first = await log.append(writes);
    await log.append([{ stream: a, events: [thing(4)], expectedRevision: 2n }]);
    await log.close();
    const reopened = await openTestLog(dir);
    expect(await reopened.append(writes)).toEqual(first);
    const others = [{ ...thing(9), id: mintEventId() }];
    const conflict = reopened.append([{ stream: a, events: others, expectedRevision: 0n }]);
    await expect(conflict).rejects.toMatchObject({ code: 'wrong_expected_revision', actual: 3n });
    expect(await readThings(reopened)).toEqual(upTo(5));
  });
});

describe('while the disk has not finished a sync', () => {
  it("resolves appends awaited until 'written', none that must be durable, and shows readers neither", async () => {
    const { disk, log } = await faultyLog();
    await appendThings(log, 0, 2);
    const seen: unknown[] = [];
    const following = (async () => {
      for await (const item of log.subscribe({ filter: { types: ['thing.noted'] } })) {
        if ('data' in item) seen.push(item.data);
        if (seen.length === 4) return;
      }
    })();
    await until(() => seen.length === 2 && log.status().unsyncedBytes === 0);
    const before = await log.head();
    disk.holdSyncs();
    onTestFinished(() => disk.releaseSyncs());
    let isDurable = false;
    const written = await log.append(
      [{ stream: streamName('thing', 'w'), events: [thing(2)], expectedRevision: 'noStream' }],
      { until: 'written' },
    );
    const durable = appendThing(log, 3).then((appended) => {
      isDurable = true;
      return appended;
    });
    await until(() => disk.heldSyncs > 0);
    expect(log.status().unsyncedBytes).toBeGreaterThan(0);
    expect(await readThings(log)).toEqual([0, 1]);
    expect(await collect(log.readStream(streamName('thing', 'w')))).toEqual([]);
    expect([await log.head(), log.status().durableHead]).toEqual([before, before]);
    expect([isDurable, seen.length]).toEqual([false, 2]);
    disk.releaseSyncs();
    const last = await durable;
    await following;
    expect(Number(written.position)).toBe(Number(before) + 1);
    expect([await log.head(), log.status().durableHead]).toEqual([last.position, last.position]);
    expect(seen).toEqual(upTo(4).map((n) => ({ n })));
  });
});

describe('when a sync fails', () => {
  it('reports an unknown outcome, writes everything again elsewhere, and continues', async () => {
    const { dir, disk, log } = await faultyLog();
    await appendThings(log, 0, 3);
    disk.failSyncs('EIO');
    const written = log.append(
      [{ stream: streamName('thing', 'w'), events: [thing(3)], expectedRevision: 'noStream' }],
      {
        until: 'written',
      },
    );
    const durable = appendThing(log, 4);
    await expect(written).resolves.toMatchObject({ revisions: [0n] });
    expect((await failureOf(durable)).outcome).toBe('unknown');
    expect(log.status()).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('EIO') });
    expect((await failureOf(appendThing(log, 99))).outcome).toBe('none');
    expect(await readThings(log)).toEqual([0, 1, 2]);
    disk.failSyncs(undefined);
    await becomesOk(log);
    expect(await readThings(log)).toEqual([0, 1, 2, 3, 4]);
    await appendThings(log, 5, 3);
    expect(await readThings(log)).toEqual(upTo(8));
    expect(log.status().segments).toBe(2);
    await log.close();
    const reopened = await openTestLog(dir);
    expect(await readThings(reopened)).toEqual(upTo(8));
    expect((await readAll(reopened)).map(({ position }) => Number(position))).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it('shows the events to subscribers once, when they are safe', async () => {
    const { disk, log } = await faultyLog();
    const seen: unknown[] = [];
    const following = (async () => {
      for await (const item of log.subscribe({ filter: { types: ['thing.noted'] } })) {
        if ('data' in item) seen.push(item.data);
        if (seen.length === 4) return;
      }
    })();
    await appendThings(log, 0, 2);
    disk.failSyncs('EIO');
    await failureOf(appendThing(log, 2));
    disk.failSyncs(undefined);
    await becomesOk(log);
    await appendThing(log, 3);
    await following;
    expect(seen).toEqual(upTo(4).map((n) => ({ n })));
  });

  it('survives another failure during the repair, at any of its steps', async () => {
    let steps = 0;
    for (let failing = 0; failing <= steps; failing++) {
      const { dir, disk, log } = await faultyLog();
      await appendThings(log, 0, 2);
      disk.failSyncs('EIO');
      await failureOf(appendThing(log, 2));
      let step = 0;
      disk.beforeChange = () => {
        if (step++ === failing) throw Object.assign(new Error('EIO: injected'), { code: 'EIO' });
      };
      disk.failSyncs(undefined);
      await becomesOk(log);
      disk.beforeChange = () => {};
      if (failing === 0) steps = step;
      await appendThings(log, 3, 2);
      expect(await readThings(log)).toEqual(upTo(5));
      await log.close();
      expect(await readThings(await openTestLog(dir))).toEqual(upTo(5));
    }
    expect(steps).toBeGreaterThan(3);
  });

  /** Appends 0 to 2 durably and 3 to 11 so that their sync fails, over several segments. */
  async function withFailedSync(log: EmbeddedLog, disk: FaultyDisk): Promise<void> {
    await appendThings(log, 0, 3);
    await until(() => log.status().unsyncedBytes === 0);
    disk.holdSyncs();
    const appends = [];
    for (let n = 3; n < 12; n++) {
      const events = [thing(n)];
      appends.push(
        log.append([{ stream: streamName('thing', 'a'), events, expectedRevision: 'any' }], { until: 'written' }),
      );
      await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all(appends);
    await until(() => disk.heldSyncs > 0);
    disk.failSyncs('EIO');
    disk.releaseSyncs();
    await until(() => log.status().state === 'unavailable');
  }

  const layouts: [string, number][] = [
    ['one segment', 1_000_000],
    ['several segments', 400],
    ['a segment each', 1],
  ];

  it.each(layouts)(
    'leaves every written event for the next start, killed at any step of the repair: %s',
    async (_, segmentBytes) => {
      const { dir, disk, log } = await faultyLog({ ...soon, segmentBytes, seal: false });
      await withFailedSync(log, disk);
      const copies: string[] = [];
      const copy = () => {
        const to = temporaryDirectory('memory');
        cpSync(dir, to, { recursive: true });
        for (const file of ['writer.lock', 'writer.json']) rmSync(path.join(to, file), { force: true });
        copies.push(to);
      };
      disk.beforeChange = copy;
      disk.failSyncs(undefined);
      await becomesOk(log);
      disk.beforeChange = () => {};
      copy();
      expect(copies.length).toBeGreaterThan(4);
      for (const found of copies) {
        const reopened = await openTestLog(found, { seal: false });
        expect(await readThings(reopened)).toEqual(upTo(12));
        await reopened.close();
        expect(await readThings(await openTestLog(found, { seal: false }))).toEqual(upTo(12));
      }
    },
  );

  it.each(layouts)(
    'shows every acknowledged event while it repairs, failing at any step, with relaxed durability: %s',
    async (_, segmentBytes) => {
      let steps = 1;
      for (let failing = 0; failing < steps; failing++) {
        const { dir, disk, log } = await faultyLog({
          durability: 'relaxed',
          segmentBytes,
          seal: false,
          commit: { probeMs: 2, relaxedSyncMs: 1 },
        });
        await withFailedSync(log, disk);
        let step = 0;
        let reached: (() => void) | undefined;
        const stuck = new Promise<void>((resolve) => {
          reached = resolve;
        });
        disk.beforeChange = () => {
          if (step++ < failing) return;
          reached?.();
          throw Object.assign(new Error('EIO: injected'), { code: 'EIO' });
        };
        disk.failSyncs(undefined);
        await Promise.race([stuck, becomesOk(log)]);
        expect(await readThings(log)).toEqual(upTo(12));
        steps = Math.max(steps, log.status().state === 'ok' ? step : failing + 2);
        disk.beforeChange = () => {};
        await becomesOk(log);
        await appendThings(log, 12, 2);
        expect(await readThings(log)).toEqual(upTo(14));
        await log.close();
        expect(await readThings(await openTestLog(dir, { seal: false }))).toEqual(upTo(14));
      }
      expect(steps).toBeGreaterThan(4);
    },
  );

  it('repairs across segments that were begun in the meantime', async () => {
    const { dir, disk, log } = await faultyLog({ ...soon, segmentBytes: 400, seal: false });
    await appendThings(log, 0, 3);
    disk.holdSyncs();
    const appends = [];
    for (let n = 3; n < 12; n++) {
      appends.push(failureOf(appendThing(log, n)));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => disk.heldSyncs > 0);
    expect(filesOf(dir, '.seg').length).toBeGreaterThan(3);
    disk.failSyncs('EIO');
    disk.releaseSyncs();
    for (const { outcome } of await Promise.all(appends)) expect(outcome).toBe('unknown');
    disk.failSyncs(undefined);
    await becomesOk(log);
    await appendThings(log, 12, 2);
    expect(await readThings(log)).toEqual(upTo(14));
    for (const id of ['0', '1', '2']) {
      const events = await collect(log.readStream(streamName('thing', id)));
      expect(events.map(({ data }) => (data as { n: number }).n)).toEqual(upTo(14).filter((n) => n % 3 === Number(id)));
    }
    await log.close();
    expect(await readThings(await openTestLog(dir))).toEqual(upTo(14));
  });

  it('reports it when it is closed while the disk still refuses, and keeps the synced events', async () => {
    const { dir, disk, log } = await faultyLog();
    await appendThings(log, 0, 2);
    disk.failSyncs('EIO');
    const append = failureOf(appendThing(log, 2));
    expect((await failureOf(log.close())).outcome).toBe('unknown');
    expect((await append).outcome).toBe('unknown');
    expect((await readThings(await openTestLog(dir))).slice(0, 2)).toEqual([0, 1]);
  });

  it('does the same with relaxed durability', async () => {
    const { disk, log } = await faultyLog({ durability: 'relaxed', commit: { probeMs: 5, relaxedSyncMs: 1 } });
    disk.failSyncs('EIO');
    await appendThing(log, 0);
    await until(() => log.status().state === 'unavailable');
    disk.failSyncs(undefined);
    await becomesOk(log);
    await appendThing(log, 1);
    expect(await readThings(log)).toEqual([0, 1]);
  });
});

describe('when the disk does not keep up', () => {
  const small = { maxUnsyncedBytes: 1_000, maxQueuedBytes: 5_000, queueTimeoutMs: 50, probeMs: 5 };

  it('lets appends wait, in order, and none is lost when the disk recovers', async () => {
    const { disk, log } = await faultyLog({ commit: { ...small, queueTimeoutMs: 10_000 } });
    disk.holdSyncs();
    const appends = upTo(12).map((n) => appendThing(log, n, Buffer.alloc(100)));
    expect(log.status().queuedBytes).toBeGreaterThan(0);
    await until(() => disk.heldSyncs > 0);
    disk.releaseSyncs();
    await Promise.all(appends);
    expect(await readThings(log)).toEqual(upTo(12));
    expect(log.status()).toMatchObject({ state: 'ok', queuedBytes: 0, unsyncedBytes: 0 });
  });

  it('refuses appends beyond the queue, and those that waited too long', async () => {
    const { disk, log } = await faultyLog({ commit: small });
    disk.holdSyncs();
    const appends = upTo(40).map((n) => appendThing(log, n, Buffer.alloc(100)));
    const outcomes = Promise.allSettled(appends);
    const full = await failureOf(appends[39] ?? Promise.resolve());
    expect(full).toMatchObject({ outcome: 'none', message: expect.stringContaining('full') });
    await until(() => log.status().state === 'unavailable');
    disk.releaseSyncs();
    const settled = await outcomes;
    const accepted = upTo(40).filter((n) => settled[n]?.status === 'fulfilled');
    expect(accepted.length).toBeGreaterThan(2);
    expect(accepted.length).toBeLessThan(20);
    expect(await readThings(log)).toEqual(accepted);
    expect(log.status().state).toBe('ok');
  });

  it('records for a waiting append the events of the moment of the call', async () => {
    const { disk, log } = await faultyLog({ commit: { ...small, queueTimeoutMs: 60_000 } });
    disk.holdSyncs();
    const written = appendThing(log, 0, Buffer.alloc(2_000));
    await until(() => disk.heldSyncs > 0);
    const before = Date.now();
    const data = { n: 1 };
    const body = Buffer.from('before');
    const events: NewEvent[] = [{ ...thing(0), data, body }];
    const waiting = log.append([{ stream: streamName('thing', 'w'), events, expectedRevision: 'noStream' }]);
    expect(log.status().queuedBytes).toBeGreaterThan(0);
    data.n = 2;
    body.write('after!');
    events.push(thing(3));
    // time passes before its turn comes
    const called = Date.now();
    while (Date.now() - called < 20);
    disk.releaseSyncs();
    await Promise.all([written, waiting]);
    const recorded = await collect(log.readStream(streamName('thing', 'w')));
    expect(recorded.map((event) => [event.data, String(event.body)])).toEqual([[{ n: 1 }, 'before']]);
    expect(recorded[0]?.at).toBeGreaterThan(before - 5);
    expect(recorded[0]?.at).toBeLessThan(called + 10);
  });

  it('records the same ids once, although they are appended again while they wait', async () => {
    const { disk, log } = await faultyLog({ commit: { ...small, queueTimeoutMs: 60_000 } });
    disk.holdSyncs();
    const written = appendThing(log, 0, Buffer.alloc(2_000));
    await until(() => disk.heldSyncs > 0);
    const events = [{ ...thing(1), id: mintEventId() }];
    const append = () => log.append([{ stream: streamName('thing', '1'), events, expectedRevision: 'any' }]);
    const appends = [append(), append(), append()];
    disk.releaseSyncs();
    const positions = (await Promise.all(appends)).map(({ position }) => position);
    await written;
    expect(new Set(positions).size).toBe(1);
    expect(await readThings(log)).toEqual([0, 1]);
  });

  it('refuses waiting appends when the disk then refuses the first of them, and recovers', async () => {
    const unhandled: unknown[] = [];
    const noteUnhandled = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', noteUnhandled);
    onTestFinished(() => void process.off('unhandledRejection', noteUnhandled));
    const { disk, log } = await faultyLog({ commit: { ...small, maxQueuedBytes: 1e9, queueTimeoutMs: 60_000 } });
    disk.holdSyncs();
    const written = appendThing(log, 0, Buffer.alloc(2_000));
    await until(() => disk.heldSyncs > 0);
    // each is large enough to be written as soon as its turn comes
    const refused = [1, 2, 3].map((n) => failureOf(appendThing(log, n, Buffer.alloc(20_000))));
    disk.failWrites('ENOSPC');
    disk.releaseSyncs();
    for (const { outcome } of await Promise.all(refused)) expect(outcome).toBe('none');
    await written;
    disk.failWrites(undefined);
    await becomesOk(log);
    await appendThing(log, 1);
    expect(await readThings(log)).toEqual([0, 1]);
    expect(unhandled).toEqual([]);
  });

  it('keeps no more unsynced bytes than allowed, however many writers there are', async () => {
    const { log } = await faultyLog({ commit: { ...small, maxQueuedBytes: 1e9, queueTimeoutMs: 60_000 } });
    let most = 0;
    await Promise.all(
      upTo(300).map(async (n) => {
        await appendThing(log, n, Buffer.alloc(100));
        most = Math.max(most, log.status().unsyncedBytes);
      }),
    );
    expect(most).toBeLessThan(2_000);
    expect(await readThings(log)).toEqual(upTo(300));
  });
});

function mountSmallDisk(dir: string): boolean {
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', dir]).status === 0;
  if (mounted) onTestFinished(() => void spawnSync('umount', ['-l', dir]));
  return mounted;
}

describe('when the disk is really full', () => {
  it('refuses until there is room again, and then continues without a restart', async ({ skip }) => {
    const dir = temporaryDirectory();
    if (!mountSmallDisk(dir)) skip('a small disk can only be mounted by root');
    const log = await openTestLog(path.join(dir, 'log'), soon);
    const filler = path.join(dir, 'filler');
    writeFileSync(filler, Buffer.alloc(400_000));
    const accepted: number[] = [];
    let refused = 0;
    for (let n = 0; n < 100; n++) {
      const append = appendThing(log, n, Buffer.alloc(5_000));
      await append.then(
        () => accepted.push(n),
        ({ outcome }) => {
          expect(outcome).toBe('none');
          refused++;
        },
      );
      if (refused === 5) {
        rmSync(filler);
        await becomesOk(log);
        refused++;
      }
      if (accepted.length >= 35) break;
    }
    expect(refused).toBe(6);
    expect(await readThings(log)).toEqual(accepted);
    await log.close();
    expect(await readThings(await openTestLog(path.join(dir, 'log')))).toEqual(accepted);
  });

  it('refuses and continues in the same way at a file size limit of the operating system', async () => {
    const dir = temporaryDirectory();
    const script = path.join(import.meta.dirname, 'fill-the-disk.ts');
    // SIGXFSZ is ignored by Node, so the write fails with EFBIG like on a full disk
    const child = spawn('bash', ['-c', `ulimit -f 64 && exec "${process.execPath}" "${script}" "${dir}"`], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (text) => {
      output += text;
    });
    const code = await new Promise((resolve) => child.once('exit', resolve));
    expect(code).toBe(0);
    const { acknowledged, refused } = JSON.parse(output) as { acknowledged: number[]; refused: string[] };
    expect(acknowledged.length).toBeGreaterThan(10);
    expect(new Set(refused)).toEqual(new Set(['none']));
    const log = await openTestLog(dir);
    expect(await readThings(log)).toEqual(acknowledged);
  });
});
