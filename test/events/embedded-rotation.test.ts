import { describe, expect, it } from 'vitest';
import { type Disk, nodeDisk } from '../../src/events/embedded/disk.ts';
import { faultyDisk } from './faulty-disk.ts';
import { appendThings, filesOf, openTestLog, readThings, temporaryDirectory, until, upTo } from './log-files.ts';

const sealedFile = /\.zst(\.tmp)?$/;

/** A disk that changes the bytes of compressed segments with `damage`, as long as it is set. */
function forgetfulDisk(): { disk: Disk; damage: ((bytes: Buffer) => Buffer) | undefined } {
  const sealing = new Set<number>();
  const forgetful = {
    damage: undefined as ((bytes: Buffer) => Buffer) | undefined,
    disk: {
      ...nodeDisk,
      open: (file, mode) => {
        const fd = nodeDisk.open(file, mode);
        sealing.delete(fd);
        if (mode === 'create' && sealedFile.test(file)) sealing.add(fd);
        return fd;
      },
      write: (fd, buffer, offset, length, position) => {
        if (!sealing.has(fd) || forgetful.damage === undefined) {
          return nodeDisk.write(fd, buffer, offset, length, position);
        }
        const bytes = forgetful.damage(Buffer.from(buffer.subarray(offset, offset + length)));
        nodeDisk.write(fd, bytes, 0, bytes.length, position);
        return length;
      },
    } satisfies Disk,
  };
  return forgetful;
}

const damages: [string, (bytes: Buffer) => Buffer][] = [
  [
    'a changed byte',
    (bytes) => {
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 0x10;
      return bytes;
    },
  ],
  ['bytes that were not kept', (bytes) => bytes.subarray(0, bytes.length - 1)],
  ['zeros', (bytes) => bytes.fill(0)],
];

describe('a full segment that was compressed wrongly', () => {
  it.each(damages)(
    '%s: keeps the frames, takes events, reports it, and is compressed when that works',
    async (_, damage) => {
      const dir = temporaryDirectory();
      const forgetful = forgetfulDisk();
      forgetful.damage = damage;
      const warnings: string[] = [];
      const warn = (message: string) => warnings.push(message);
      const log = await openTestLog(dir, { segmentBytes: 1_000, disk: forgetful.disk, warn });
      await appendThings(log, 0, 12);
      await until(() => log.status().failedRotations !== 0);
      expect(log.status()).toMatchObject({ state: 'ok', degraded: expect.stringContaining('0000000000000001') });
      expect(warnings).toEqual([expect.stringContaining('cannot be indexed or compressed')]);
      expect(filesOf(dir, '.zst').length + filesOf(dir, '.tmp').length).toBe(0);
      expect(filesOf(dir, '.seg').length).toBeGreaterThan(1);
      await appendThings(log, 12, 3);
      expect(await readThings(log)).toEqual(upTo(15));

      forgetful.damage = undefined;
      await until(() => filesOf(dir, '.seg').length === 1);
      await log.settled();
      expect(log.status().degraded).toBeUndefined();
      expect(filesOf(dir, '.zst').length).toBeGreaterThan(1);
      expect(await readThings(log)).toEqual(upTo(15));
      await log.close();
      expect(await readThings(await openTestLog(dir))).toEqual(upTo(15));
    },
  );
});

describe('a full segment with no successor', () => {
  it('grows, which is reported once, until another segment can be created', async () => {
    const dir = temporaryDirectory();
    const disk = faultyDisk();
    const warnings: string[] = [];
    const log = await openTestLog(dir, {
      segmentBytes: 500,
      seal: false,
      disk,
      warn: (message) => warnings.push(message),
    });
    disk.failCreations('EMFILE');
    await appendThings(log, 0, 10);
    expect(log.status()).toMatchObject({ state: 'ok', degraded: expect.stringContaining('EMFILE') });
    expect(log.status().failedRotations).toBeGreaterThan(2);
    expect(warnings).toEqual([expect.stringContaining('cannot be created')]);
    disk.failCreations(undefined);
    await appendThings(log, 10, 1);
    expect(log.status().degraded).toBeUndefined();
  });
});
