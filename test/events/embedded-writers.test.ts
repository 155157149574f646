import { cpSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { type Disk, nodeDisk } from '../../src/events/embedded/disk.ts';
import type { EmbeddedLog, EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { frameHeaderBytes, readFrame, sealFrame } from '../../src/events/embedded/frame.ts';
import { Watermark } from '../../src/events/embedded/watermark.ts';
import { streamName } from '../../src/events/event.ts';
import { collect } from '../contract/event-log.ts';
import { faultyDisk } from './faulty-disk.ts';
import {
  appendThing,
  appendThings,
  filesOf,
  openTestLog,
  readThings,
  temporaryDirectory,
  thing,
  until,
  upTo,
} from './log-files.ts';

const raw: EmbeddedLogOptions = { seal: false };
const acceptLoss = { by: 'olga', reason: 'two gateways', at: new Date(0) };

/** As if the file system had lost the writer's lock. */
function loseLock(dir: string): void {
  rmSync(path.join(dir, 'writer.lock'));
}

async function twoWriters(
  options: EmbeddedLogOptions = raw,
): Promise<{ dir: string; first: EmbeddedLog; second: EmbeddedLog }> {
  const dir = temporaryDirectory();
  const first = await openTestLog(dir, options);
  await appendThings(first, 0, 4);
  loseLock(dir);
  return { dir, first, second: await openTestLog(dir, raw) };
}

describe('a writer whose log another one has taken over', () => {
  it.each(['standard', 'relaxed'] as const)(
    'stops with an error that says so, and acknowledges nothing more (%s)',
    async (durability) => {
      const { dir, first, second } = await twoWriters({ ...raw, durability });
      const written = first.append(
        [{ stream: streamName('thing', 'w'), events: [thing(99)], expectedRevision: 'any' }],
        { until: 'written' },
      );
      await expect(written).rejects.toMatchObject({
        code: 'log_unavailable',
        message: expect.stringMatching(/taken over by process \d+ .*position 0000000000000004/),
      });
      await expect(appendThing(first, 99)).rejects.toThrow(/taken over/);
      expect(first.status()).toMatchObject({ state: 'unavailable', reason: expect.stringContaining('taken over') });
      await appendThings(second, 4, 4);
      await first.close().catch(() => {});
      expect(await readThings(second)).toEqual(upTo(8));
      await appendThings(second, 8, 1);
      await second.close();
      expect((await checkLog(dir)).problem).toBeUndefined();
      expect(await readThings(await openTestLog(dir))).toEqual(upTo(9));
    },
  );

  it('does not acknowledge events that it wrote and did not sync, and every acknowledged event is there', async () => {
    const dir = temporaryDirectory();
    const disk = faultyDisk();
    const first = await openTestLog(dir, { ...raw, disk });
    await appendThings(first, 0, 4);
    disk.holdSyncs();
    const held = appendThing(first, 4).catch((error: unknown) => error);
    await until(() => disk.heldSyncs > 0);
    loseLock(dir);
    const second = await openTestLog(dir, raw);
    disk.releaseSyncs();
    expect(await held).toMatchObject({
      code: 'log_unavailable',
      outcome: 'unknown',
      message: expect.stringContaining('taken over'),
    });
    expect((await readThings(second)).slice(0, 4)).toEqual(upTo(4));
  });

  it('does not acknowledge at the write what it adds to a batch that is not yet synced', async () => {
    const dir = temporaryDirectory();
    const disk = faultyDisk();
    const first = await openTestLog(dir, { ...raw, disk });
    await appendThings(first, 0, 4);
    disk.holdSyncs();
    const held = appendThing(first, 4).catch((error: unknown) => error);
    await until(() => disk.heldSyncs > 0);
    loseLock(dir);
    const second = await openTestLog(dir, raw);
    const written = first.append([{ stream: streamName('thing', 'w'), events: [thing(99)], expectedRevision: 'any' }], {
      until: 'written',
    });
    await expect(written).rejects.toMatchObject({ outcome: 'unknown', message: expect.stringContaining('taken over') });
    disk.releaseSyncs();
    expect(await held).toMatchObject({ outcome: 'unknown' });
    await second.close();
    expect((await checkLog(dir)).problem?.reason).toMatch(/of the writer that opened it/);
  });

  it('looks up the path of the log for each sync, not for each write', async () => {
    let lookUps = 0;
    const isNamed: Disk['isNamed'] = (identity, file) => {
      lookUps++;
      return nodeDisk.isNamed(identity, file);
    };
    const disk = { ...nodeDisk, isNamed };
    const log = await openTestLog(temporaryDirectory(), { ...raw, disk, commit: { unawaitedSyncMs: 60_000 } });
    for (let n = 0; n < 50; n++) {
      await log.append([{ stream: streamName('thing', 'w'), events: [thing(n)], expectedRevision: 'any' }], {
        until: 'written',
      });
    }
    await appendThing(log, 50);
    // one for the sync; the others are of the timer
    expect(lookUps).toBeGreaterThan(0);
    expect(lookUps).toBeLessThan(25);
  });

  it('does not repair the files of the other one', async () => {
    const dir = temporaryDirectory();
    const disk = faultyDisk();
    const first = await openTestLog(dir, { ...raw, disk, commit: { probeMs: 2 } });
    await appendThings(first, 0, 4);
    disk.failSyncs('EIO');
    await expect(appendThing(first, 4)).rejects.toMatchObject({ outcome: 'unknown' });
    loseLock(dir);
    const second = await openTestLog(dir, raw);
    await appendThings(second, 5, 3);
    disk.failSyncs(undefined);
    await until(() => first.status().reason?.includes('taken over') ?? false);
    expect(await readThings(second)).toEqual(upTo(8));
  });
});

describe('a log that was not closed', () => {
  it('continues in a new segment, so that a writer that still runs cannot overwrite it', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, raw);
    await appendThings(log, 0, 2);
    const copy = temporaryDirectory();
    cpSync(dir, copy, { recursive: true });
    loseLock(copy);
    await openTestLog(copy, raw);
    expect(filesOf(copy, '.seg').map((file) => path.basename(file))).toEqual([
      '0000000000000001.seg',
      '0000000000000003.seg',
    ]);
    await log.close();
    await openTestLog(dir, raw);
    expect(filesOf(dir, '.seg')).toHaveLength(1);
  });
});

describe('the segment of a writer that was killed while it was idle', () => {
  it('is compressed like any other', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir);
    await appendThings(log, 0, 3);
    const copy = temporaryDirectory();
    cpSync(dir, copy, { recursive: true });
    loseLock(copy);
    const next = await openTestLog(copy);
    await until(() => filesOf(copy, '.zst').length === 1 || next.status().failedRotations !== 0);
    expect(next.status()).toMatchObject({ degraded: undefined, failedRotations: 0 });
    expect(await readThings(next)).toEqual(upTo(3));
  });
});

/** The frame at that place of a segment, as another writer would have written it. */
function rewrittenBy(writer: number, bytes: Buffer, at: number, mark: number, first?: number): Buffer {
  const frame = readFrame(bytes, at, bytes.length, mark);
  if (typeof frame === 'string') throw new Error(frame);
  const copy = Buffer.from(bytes.subarray(at, frame.end));
  sealFrame(copy, copy.length, { ...frame, mark, writer, first: first ?? frame.first });
  expect(copy.length).toBeGreaterThan(frameHeaderBytes);
  return copy;
}

describe('a log that two writers wrote at the same time', () => {
  const markOf = (dir: string) => Watermark.find(nodeDisk, dir)?.mark ?? 0;

  it('is refused with the positions of each writer, and continues with all of them after accept-loss', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, raw);
    const boundaries = [0];
    for (let n = 0; n < 4; n++) {
      await appendThing(log, n);
      boundaries.push(statSync(filesOf(dir, '.seg')[0] ?? '').size);
    }
    await log.close();
    const file = filesOf(dir, '.seg')[0] ?? '';
    const bytes = readFileSync(file);
    const frames = [100, 200, 200, 100].map((writer, at) =>
      rewrittenBy(writer, bytes, boundaries[at] ?? 0, markOf(dir)),
    );
    writeFileSync(file, Buffer.concat(frames));
    const says =
      /positions 1 to 1 of the writer that opened it at 1970-01-01T00:01:40.000Z, positions 2 to 3 of the writer that opened it at 1970-01-01T00:03:20.000Z, positions 4 to 4 of the writer that opened it at 1970-01-01T00:01:40/;
    await expect(openTestLog(dir, raw)).rejects.toThrow(says);
    expect((await checkLog(dir)).problem?.reason).toMatch(says);
    const accepted = await openTestLog(dir, { ...raw, acceptLoss });
    expect(await readThings(accepted)).toEqual(upTo(4));
    await accepted.close();
    expect(await readThings(await openTestLog(dir, raw))).toEqual(upTo(4));
  });

  it('is refused when the first one continued behind the beginning of the second one, and keeps both after accept-loss', async () => {
    const { dir, first, second } = await twoWriters();
    await appendThings(second, 4, 2);
    await second.close();
    await first.close();
    const [before = '', after = ''] = filesOf(dir, '.seg');
    const bytes = readFileSync(before);
    const surplus = rewrittenBy(100, bytes, 0, markOf(dir), 5);
    writeFileSync(before, surplus, { flag: 'a' });
    const says = /positions 5 to 5 of the writer that opened it at 1970-01-01T00:01:40.000Z/;
    await expect(openTestLog(dir, raw)).rejects.toThrow(says);
    expect((await checkLog(dir)).problem?.reason).toMatch(says);
    expect(statSync(before).size).toBe(bytes.length + surplus.length);
    const accepted = await openTestLog(dir, { ...raw, acceptLoss });
    expect(await readThings(accepted)).toEqual(upTo(6));
    await accepted.close();
    expect(readFileSync(filesOf(dir, '.damaged')[0] ?? '')).toEqual(surplus);
    expect(after).not.toBe('');
    expect(await readThings(await openTestLog(dir, raw))).toEqual(upTo(6));
    expect((await checkLog(dir)).problem).toBeUndefined();
  });
});

describe('a log whose frames name no writer', () => {
  /** Written before frames had a writer: compressed segments and one that is not. */
  const earlier = path.join(import.meta.dirname, 'logs', 'frames-without-writer');

  it('is read, checked and continued, and its bytes are unchanged', async () => {
    const dir = temporaryDirectory();
    cpSync(earlier, dir, { recursive: true });
    expect(await checkLog(dir)).toMatchObject({ problem: undefined, events: 14 });
    const log = await openTestLog(dir, raw);
    expect(await readThings(log)).toEqual(upTo(14));
    await appendThings(log, 14, 3);
    await log.close();
    const again = await openTestLog(dir, raw);
    expect(await readThings(again)).toEqual(upTo(17));
    expect((await collect(again.readStream(streamName('thing', '1')))).map(({ revision }) => Number(revision))).toEqual(
      upTo(6),
    );
    expect((await checkLog(dir)).problem).toBeUndefined();
    for (const file of filesOf(earlier, '.seg').concat(filesOf(earlier, '.zst'))) {
      expect(readFileSync(path.join(dir, path.basename(file)))).toEqual(readFileSync(file));
    }
  });
});
