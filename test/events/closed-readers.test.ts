/** Readers that are closed while they read. */
import { expect, it } from 'vitest';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { collect } from '../contract/event-log.ts';
import { appendThing, openTestLog, temporaryDirectory } from './log-files.ts';

/** A disk that notes each use of a descriptor that is not open, and calls `onRead` before a read ends. */
function watchedDisk(onRead: () => void) {
  const open = new Set<number>();
  const wrong: string[] = [];
  let reads = 0;
  const check = (fd: number, what: string) => {
    if (!open.has(fd)) wrong.push(what);
    return open.has(fd);
  };
  const disk: typeof nodeDisk = {
    ...nodeDisk,
    open(file, mode) {
      const fd = nodeDisk.open(file, mode);
      open.add(fd);
      return fd;
    },
    close(fd) {
      if (!check(fd, 'closed twice')) return;
      open.delete(fd);
      nodeDisk.close(fd);
    },
    async readLater(fd, ...rest) {
      reads++;
      if (!check(fd, 'read after it was closed')) return 0;
      const read = await nodeDisk.readLater(fd, ...rest);
      onRead();
      return read;
    },
  };
  return { disk, wrong, open, reads: () => reads };
}

it.each([true, false])(
  'a subscription that ends between two reads of one block (segments compressed: %s) uses no closed descriptor',
  async (seal) => {
    let end: AbortController | undefined;
    const { disk, wrong, open, reads } = watchedDisk(() => end?.abort());
    const log = await openTestLog(temporaryDirectory('memory'), { disk, seal, segmentBytes: 1_000_000 });
    // larger than one block: it is read twice, the second time with its full length
    for (let n = 0; n < 6; n++) await appendThing(log, n, Buffer.alloc(400_000, n));
    await log.settled();
    const [openBefore, readsBefore] = [open.size, reads()];
    end = new AbortController();
    expect(await collect(log.subscribe({ signal: end.signal }))).toEqual([]);
    end = undefined;
    expect(await collect(log.readAll())).toHaveLength(6);
    expect(reads()).toBeGreaterThan(readsBefore);
    expect(wrong).toEqual([]);
    expect(open.size).toBe(openBefore);
  },
);
