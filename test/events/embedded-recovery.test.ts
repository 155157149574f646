import { copyFileSync, cpSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { LogCorrupted } from '../../src/events/embedded/log-errors.ts';
import { Watermark } from '../../src/events/embedded/watermark.ts';
import { streamName } from '../../src/events/event.ts';
import { collect } from '../contract/event-log.ts';
import { countOf, seed } from '../support/seed.ts';
import { faultyDisk } from './faulty-disk.ts';
import {
  appendThing,
  appendThings,
  fileOf,
  openTestLog,
  readAll,
  readThings,
  temporaryDirectory,
  upTo,
} from './log-files.ts';

/** Sets the watermark back to its beginning, as if the machine had never written it. */
function forgetWatermark(dir: string): void {
  const mark = Watermark.find(nodeDisk, dir)?.mark ?? 0;
  const watermark = Watermark.openForReading(nodeDisk, dir, mark, 'write');
  watermark?.reset(0);
  watermark?.close();
}

const acceptLoss = { by: 'olga', reason: 'the disk is gone', at: new Date(0) };

/** Replaces the watermark with that of the log in `earlier`. */
function takeWatermarkBack(dir: string, earlier: string): void {
  copyFileSync(path.join(earlier, 'durable'), path.join(dir, 'durable'));
}

/** Where each frame of the log's only segment begins, and where the last one ends. */
async function frameBoundaries(dir: string, count: number): Promise<number[]> {
  const log = await openTestLog(dir);
  const boundaries = [0];
  for (let n = 0; n < count; n++) {
    await appendThings(log, n, 1, 10);
    boundaries.push(statSync(fileOf(dir, '.seg')).size);
  }
  await log.close();
  return boundaries;
}

/** Of the bytes of a file, every seventh from a random one on; all of them in `npm run test:long`. */
const STRIDE = countOf(7, 1);

describe('a log whose last write was torn', () => {
  const count = 4;

  it('keeps every whole batch, cuts the rest and records that, at every length of the file', async () => {
    const whole = temporaryDirectory('memory');
    const boundaries = await frameBoundaries(whole, count);
    const size = boundaries.at(-1) ?? 0;
    for (let length = seed % STRIDE; length < size; length += STRIDE) {
      const dir = temporaryDirectory('memory');
      cpSync(whole, dir, { recursive: true });
      const segment = fileOf(dir, '.seg');
      truncateSync(segment, length);
      // as after a crash: the cut batch had not been acknowledged
      const kept = boundaries.findLastIndex((boundary) => boundary <= length);
      forgetWatermark(dir);
      const log = await openTestLog(dir);
      const events = await readAll(log);
      expect(await readThings(log)).toEqual(upTo(kept));
      // zeros at the end of the file count as room that was laid out
      const end =
        readFileSync(fileOf(whole, '.seg'))
          .subarray(0, length)
          .findLastIndex((byte) => byte !== 0) + 1;
      const cutBytes = Math.max(0, end - (boundaries[kept] ?? 0));
      if (cutBytes === 0) {
        expect(log.recovery).toBeUndefined();
        expect(events).toHaveLength(kept);
      } else {
        const recovered = { segment: path.basename(segment, '.seg'), keptBytes: boundaries[kept], cutBytes };
        expect(events.at(-1)).toMatchObject({
          type: 'log.recovered',
          stream: 'log-embedded',
          context: { actor: 'system' },
          data: { ...recovered, lostEvents: 0 },
        });
      }
      // the next append follows without a gap
      await appendThing(log, kept);
      expect(await readThings(log)).toEqual(upTo(kept + 1));
      await log.close();
      rmSync(dir, { recursive: true });
    }
  });

  it('needs no recovery at the second opening', async () => {
    const dir = temporaryDirectory();
    const [, , end = 0] = await frameBoundaries(dir, 2);
    truncateSync(fileOf(dir, '.seg'), end - 5);
    forgetWatermark(dir);
    const first = await openTestLog(dir);
    await first.close();
    const second = await openTestLog(dir);
    expect(second.recovery).toBeUndefined();
    expect((await readAll(second)).map(({ type }) => type)).toEqual(['thing.noted', 'log.recovered']);
  });

  it('cuts off later batches too when none of them, nor the torn one, had been acknowledged', async () => {
    // a power cut may keep the later of two unfinished writes and not the earlier
    const dir = temporaryDirectory();
    const earlier = temporaryDirectory();
    const log = await openTestLog(dir);
    await appendThings(log, 0, 2);
    cpSync(path.join(dir, 'durable'), path.join(earlier, 'durable'));
    const boundary = statSync(fileOf(dir, '.seg')).size;
    await Promise.all([2, 3].map((n) => appendThing(log, n, Buffer.alloc(70_000, n))));
    await log.close();
    takeWatermarkBack(dir, earlier);
    flip(fileOf(dir, '.seg'), boundary + 100, 0xff);
    const reopened = await openTestLog(dir);
    expect(await readThings(reopened)).toEqual([0, 1]);
    expect(reopened.recovery).toMatchObject({ keptBytes: boundary, lostEvents: 0 });
  });

  it('reports how many acknowledged events are gone when the disk lost synced bytes', async () => {
    const dir = temporaryDirectory();
    const boundaries = await frameBoundaries(dir, 5);
    truncateSync(fileOf(dir, '.seg'), (boundaries[3] ?? 0) + 7);
    await expect(openTestLog(dir)).rejects.toMatchObject({
      code: 'log_incomplete',
      missing: [{ positions: { first: 4, last: 5 }, files: [`0000000000000001.seg from byte ${boundaries[3]} on`] }],
    });
    expect(statSync(fileOf(dir, '.seg')).size).toBe((boundaries[3] ?? 0) + 7);
    const log = await openTestLog(dir, { acceptLoss });
    expect(await readThings(log)).toEqual([0, 1, 2]);
    expect(log.recovery).toMatchObject({ keptBytes: boundaries[3], cutBytes: 7, lostEvents: 2 });
    const aside = fileOf(dir, '.damaged');
    expect(statSync(aside).size).toBe(7);
  });

  it('opens although the disk is full, and records the recovery when there is room again', async () => {
    const dir = temporaryDirectory();
    const [, end = 0] = await frameBoundaries(dir, 1);
    truncateSync(fileOf(dir, '.seg'), end - 1);
    forgetWatermark(dir);
    const disk = faultyDisk();
    disk.failWrites('ENOSPC');
    const log = await openTestLog(dir, { disk, commit: { probeMs: 5 } });
    expect(log.status().state).toBe('unavailable');
    disk.failWrites(undefined);
    for await (const item of log.subscribe({ filter: { types: ['log.recovered'] } })) if ('data' in item) break;
    expect(await readAll(log)).toHaveLength(1);
  });

  it('reports that too when the file ends between two batches', async () => {
    const dir = temporaryDirectory();
    const boundaries = await frameBoundaries(dir, 5);
    truncateSync(fileOf(dir, '.seg'), boundaries[4]);
    await expect(openTestLog(dir)).rejects.toMatchObject({
      code: 'log_incomplete',
      missing: [{ positions: { first: 5, last: 5 } }],
    });
  });
});

function flip(file: string, offset: number, mask: number): void {
  const bytes = readFileSync(file);
  bytes[offset] = (bytes[offset] ?? 0) ^ mask;
  writeFileSync(file, bytes);
}

describe('a log with a changed byte', () => {
  const masks = [0x01, 0x80, 0xff, 0x20];

  interface Pristine {
    readonly dir: string;
    readonly boundaries: number[];
    readonly bytes: Buffer;
  }

  async function pristineLog(): Promise<Pristine> {
    const dir = temporaryDirectory('memory');
    const boundaries = await frameBoundaries(dir, 3);
    return { dir, boundaries, bytes: readFileSync(fileOf(dir, '.seg')) };
  }

  function copyOf({ dir }: Pristine): string {
    const copy = temporaryDirectory('memory');
    cpSync(dir, copy, { recursive: true });
    return copy;
  }

  it('in a batch that others follow, is not opened, wherever the byte is', async () => {
    const pristine = await pristineLog();
    const { boundaries, bytes } = pristine;
    const dir = copyOf(pristine);
    const segment = fileOf(dir, '.seg');
    const lastBatch = boundaries[2] ?? 0;
    for (let offset = 0; offset < lastBatch; offset++) {
      const changed = Buffer.from(bytes);
      changed[offset] = (changed[offset] ?? 0) ^ (masks[offset % masks.length] ?? 0);
      writeFileSync(segment, changed);
      const damagedBatch = boundaries.findLast((boundary) => boundary <= offset);
      const error = await EmbeddedLog.open(dir).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LogCorrupted);
      expect(error).toMatchObject({ code: 'log_corrupted', offset: damagedBatch, segment: '0000000000000001' });
      expect(readFileSync(segment)).toEqual(changed);
    }
  });

  it('in the last batch, is not opened, and loses that batch alone when an operator accepts that', async () => {
    const pristine = await pristineLog();
    const { boundaries, bytes } = pristine;
    const lastBatch = boundaries[2] ?? 0;
    for (let offset = lastBatch + (seed % STRIDE); offset < bytes.length; offset += STRIDE) {
      const dir = copyOf(pristine);
      flip(fileOf(dir, '.seg'), offset, masks[offset % masks.length] ?? 0);
      await expect(EmbeddedLog.open(dir)).rejects.toMatchObject({ code: 'log_incomplete' });
      const log = await EmbeddedLog.open(dir, { acceptLoss });
      expect(await readThings(log)).toEqual([0, 1]);
      expect(log.recovery).toMatchObject({ keptBytes: lastBatch, lostEvents: 1 });
      expect(readFileSync(fileOf(dir, '.damaged'))).toHaveLength(bytes.length - lastBatch);
      await log.close();
      rmSync(dir, { recursive: true });
    }
  });

  it('is not opened either when the watermark is lost', async () => {
    const { dir } = await pristineLog();
    forgetWatermark(dir);
    flip(fileOf(dir, '.seg'), 60, 0x10);
    await expect(EmbeddedLog.open(dir)).rejects.toBeInstanceOf(LogCorrupted);
  });

  it('while it is open, stops reading there, with every event before it and none after', async () => {
    const { dir, boundaries, bytes } = await pristineLog();
    const log = await openTestLog(dir);
    const size = boundaries[2] ?? 0;
    for (let offset = boundaries[1] ?? 0; offset < size; offset += 3) {
      writeFileSync(fileOf(dir, '.seg'), bytes);
      flip(fileOf(dir, '.seg'), offset, 0xff);
      const seen: unknown[] = [];
      const reading = (async () => {
        for await (const event of log.readAll()) seen.push(event.data);
      })();
      await expect(reading).rejects.toBeInstanceOf(LogCorrupted);
      expect(seen).toEqual([{ n: 0 }]);
      await expect(collect(log.readStream(streamName('thing', '1')))).rejects.toBeInstanceOf(LogCorrupted);
    }
  });
});

describe('the files of a log', () => {
  it('are created for their owner alone', async () => {
    const dir = path.join(temporaryDirectory(), 'a', 'b');
    await openTestLog(dir);
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    expect(statSync(fileOf(dir, '.seg')).mode & 0o777).toBe(0o600);
  });

  it('do not accept a batch of another log', async () => {
    const dir = temporaryDirectory();
    const other = temporaryDirectory();
    await frameBoundaries(dir, 1);
    await frameBoundaries(other, 2);
    const size = statSync(fileOf(dir, '.seg')).size;
    const foreign = readFileSync(fileOf(other, '.seg')).subarray(size);
    writeFileSync(fileOf(dir, '.seg'), foreign, { flag: 'a' });
    const log = await openTestLog(dir);
    expect(await readThings(log)).toEqual([0]);
    expect(log.recovery).toMatchObject({ keptBytes: size, cutBytes: foreign.length, lostEvents: 0 });
  });

  it("do not accept a client's bytes as a batch, even if they have its form", async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir);
    await appendThings(log, 0, 2);
    const earlier = temporaryDirectory();
    cpSync(path.join(dir, 'durable'), path.join(earlier, 'durable'));
    const boundary = statSync(fileOf(dir, '.seg')).size;
    const frames = readFileSync(fileOf(dir, '.seg'));
    await appendThing(log, 2, Buffer.concat([frames, frames]));
    await log.close();
    takeWatermarkBack(dir, earlier);
    truncateSync(fileOf(dir, '.seg'), statSync(fileOf(dir, '.seg')).size - 1);
    const reopened = await openTestLog(dir);
    expect(await readThings(reopened)).toEqual([0, 1]);
    expect(reopened.recovery?.keptBytes).toBe(boundary);
  });
});
