/** The zeros that the writer lays out behind the frames: readers take them neither for events nor for damage. */
import { cpSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { type Disk, nodeDisk } from '../../src/events/embedded/disk.ts';
import type { EmbeddedLog, EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { markOf } from '../../src/events/embedded/frame.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { scanSegment } from '../../src/events/embedded/scan-segment.ts';
import { faultyDisk } from './faulty-disk.ts';
import {
  appendThing,
  appendThings,
  fileOf,
  filesOf,
  openTestLog,
  readThings,
  temporaryDirectory,
  upTo,
} from './log-files.ts';

const layOutBytes = 8_192;
const sizeOf = (dir: string) => statSync(fileOf(dir, '.seg')).size;

/** As a killed process leaves it. */
function copyOf(dir: string): string {
  const copy = path.join(temporaryDirectory(), 'log');
  cpSync(dir, copy, { recursive: true });
  return copy;
}

async function logOf(count: number, options?: EmbeddedLogOptions): Promise<{ dir: string; log: EmbeddedLog }> {
  const dir = temporaryDirectory();
  const log = await openTestLog(dir, { layOutBytes, ...options });
  await appendThings(log, 0, count);
  return { dir, log };
}

describe('a segment that is written to', () => {
  it('has room behind its frames, which they fill without changing its size', async () => {
    const { dir, log } = await logOf(1);
    const size = sizeOf(dir);
    expect(size).toBeGreaterThan(layOutBytes);
    await appendThings(log, 1, 10);
    expect(sizeOf(dir)).toBe(size);
    await appendThings(log, 11, 100);
    expect(sizeOf(dir)).toBeGreaterThan(size);
  });

  it('holds frames alone once it is full, and once the log is closed', async () => {
    const { dir, log } = await logOf(60, { segmentBytes: 3_000, seal: false });
    await log.close();
    const before = filesOf(dir, '.seg').map((file) => statSync(file).size);
    expect(before.length).toBeGreaterThan(2);
    for (const file of filesOf(dir, '.seg')) expect(readFileSync(file).subarray(-8)).not.toEqual(Buffer.alloc(8));
    expect(await readThings(await openTestLog(dir))).toEqual(upTo(60));
  });

  it('is opened again after a kill without a loss or a cut, and continues', async () => {
    const { dir } = await logOf(5);
    const copy = copyOf(dir);
    const log = await openTestLog(copy, { layOutBytes });
    expect(log.recovery).toBeUndefined();
    await appendThings(log, 5, 5);
    expect(await readThings(log)).toEqual(upTo(10));
    await log.close();
    expect(await readThings(await openTestLog(copy))).toEqual(upTo(10));
  });

  it('is read by another process, with and without its writer', async () => {
    const { dir } = await logOf(5);
    for (const folder of [dir, copyOf(dir)]) {
      const reader = await ReadOnlyLog.open(folder);
      expect(await readThings(reader)).toEqual(upTo(5));
      await reader.close();
    }
  });

  it('is complete to a check', async () => {
    const { dir } = await logOf(5);
    expect(await checkLog(copyOf(dir))).toMatchObject({ unfinishedBytes: 0 });
  });

  it('is scanned to its end although frames are written over zeros that were read already', async () => {
    const { dir, log } = await logOf(5);
    const before = readFileSync(fileOf(dir, '.seg'));
    await appendThings(log, 5, 5);
    await log.close();
    const mark = markOf(before);
    if (mark === undefined) throw new Error('the segment begins with no frame');
    let reads = 0;
    const disk: Disk = {
      ...nodeDisk,
      size: () => before.length,
      read: (fd, buffer, offset, length, position) =>
        reads++ === 0
          ? before.copy(buffer, offset, position, position + length)
          : nodeDisk.read(fd, buffer, offset, length, position),
    };
    const scanned = scanSegment(disk, dir, mark, 1);
    expect(reads).toBeGreaterThan(1);
    expect(scanned).toMatchObject({ last: 10, defect: undefined });
  });

  it('is cut behind its last whole frame when a torn one lies there, and that is recorded', async () => {
    const { dir } = await logOf(5);
    const copy = copyOf(dir);
    const bytes = readFileSync(fileOf(copy, '.seg'));
    const end = bytes.findLastIndex((byte) => byte !== 0) + 1;
    // the beginning of a frame that was not written to its end
    const torn = bytes.subarray(0, 40);
    writeSync(openSync(fileOf(copy, '.seg'), 'r+'), torn, 0, torn.length, end);
    const log = await openTestLog(copy, { layOutBytes });
    expect(log.recovery).toMatchObject({ keptBytes: end, lostEvents: 0 });
    expect(log.recovery?.cutBytes).toBeLessThanOrEqual(torn.length);
    await appendThings(log, 5, 1);
    expect(await readThings(log)).toEqual(upTo(6));
  });

  it('takes frames when there is no room on the disk for the zeros', async () => {
    const disk = faultyDisk();
    const { dir, log } = await logOf(1, { layOutBytes: 100, disk });
    const refuseZeros: typeof disk.write = (fd, buffer, offset, length, position) => {
      if (buffer.subarray(offset, offset + length).every((byte) => byte === 0)) throw new Error('ENOSPC: injected');
      return disk.write(fd, buffer, offset, length, position);
    };
    await log.close();
    const second = await openTestLog(dir, { layOutBytes: 100, disk: { ...disk, write: refuseZeros } });
    await appendThings(second, 1, 20);
    await appendThing(second, 21);
    expect(second.status().state).toBe('ok');
    expect(await readThings(second)).toEqual(upTo(22));
  });
});
