/** Reading the primary's segments: what is visible when, and what it costs. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Disk, nodeDisk } from '../../src/events/embedded/disk.ts';
import type { EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { type RecordedEvent, streamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import type { SharedLog } from '../../src/events/shared/shared-log.ts';
import { collect, isEvent, noted, write } from '../contract/event-log.ts';
import { ServedFolder } from '../support/shared-logs.ts';

const a = streamName('thing', 'a');
const numberOf = ({ data }: RecordedEvent) => (data as { n: number }).n;

/** The real disk, which counts what is read. */
function countingDisk(): Disk & { bytes: number } {
  const disk = {
    ...nodeDisk,
    bytes: 0,
    read: (...args: Parameters<Disk['read']>) => {
      const read = nodeDisk.read(...args);
      disk.bytes += read;
      return read;
    },
    readLater: async (...args: Parameters<Disk['readLater']>) => {
      const read = await nodeDisk.readLater(...args);
      disk.bytes += read;
      return read;
    },
  };
  return disk;
}

async function serve(options: EmbeddedLogOptions = {}): Promise<ServedFolder> {
  const served = await ServedFolder.open(options);
  onTestFinished(() => served.dispose());
  return served;
}

async function open(served: ServedFolder, disk?: Disk): Promise<SharedLog> {
  const log = await served.openWorker(disk === undefined ? {} : { disk });
  onTestFinished(() => log.close());
  return log;
}

describe('an append without events', () => {
  it('resolves when everything that was recorded before it is visible to its worker, also what is not durable yet', async () => {
    const served = await serve();
    const one = await open(served);
    const other = await open(served);
    for (let n = 0; n < 100; n++) {
      const { position } = await one.append([write(a, 'any', noted({ n }))], { until: n % 2 ? 'durable' : 'written' });
      await other.append([]);
      expect((await other.head()) >= position).toBe(true);
      const [last] = await collect(other.readStream(a, { direction: 'backwards', maxCount: 1 }));
      expect(last).toMatchObject({ position, data: { n } });
    }
  });

  it('is refused when its expectation does not hold', async () => {
    const log = await open(await serve());
    const { revisions } = await log.append([write(a, 'noStream', noted())]);
    expect(revisions).toEqual([0n]);
    expect((await log.append([write(a, 0n)])).revisions).toEqual([0n]);
    await expect(log.append([write(a, 1n)])).rejects.toMatchObject({ stream: a, expected: 1n, actual: 0n });
  });
});

describe('the primary', () => {
  it('appends to the same log itself, with the revisions and ids of the workers', async () => {
    const served = await serve();
    const log = await open(served);
    const repeated = [write(a, 'any', noted({ n: 0 }, { id: mintEventId() }))];
    const appended = await log.append(repeated);
    expect(await served.log.append(repeated)).toEqual(appended);
    await served.log.append([write(a, 0n, noted({ n: 1 }))]);
    await log.append([write(a, 1n, noted({ n: 2 }))]);
    expect((await collect(log.readStream(a))).map(numberOf)).toEqual([0, 1, 2]);
  });
});

describe('reading one stream', () => {
  it('reads what was added since the last time, and not the segment again', async () => {
    const served = await serve();
    const disk = countingDisk();
    const log = await open(served, disk);
    const body = Buffer.alloc(10_000);
    const streams = Array.from({ length: 100 }, (_, n) => streamName('thing', String(n)));
    for (const [n, stream] of streams.entries()) {
      await served.log.append([write(stream, 'noStream', noted({ n }, { body }))]);
      await log.append([]);
      expect(await collect(log.readStream(stream))).toHaveLength(1);
    }
    // twice each event, and the blocks around them
    expect(disk.bytes).toBeLessThan(100 * (2 * 10_000 + 300_000));
    disk.bytes = 0;
    for (const stream of streams) expect(await collect(log.readStream(stream))).toHaveLength(1);
    expect(disk.bytes).toBeLessThan(100 * 20_000);
  });

  it('finds streams in the active segment, in full ones, in the index, and in all of them', async () => {
    const served = await serve({ segmentBytes: 3_000 });
    const early = await open(served);
    const wanted: number[] = [];
    for (let n = 0; n < 120; n++) {
      const stream = n % 3 === 0 ? a : streamName('thing', `other${n}`);
      if (n % 3 === 0) wanted.push(n);
      await served.log.append([write(stream, 'any', noted({ n }))]);
      if (n === 60) await served.log.settled();
      if (n % 20 === 0) {
        await early.append([]);
        expect((await collect(early.readStream(a))).map(numberOf)).toEqual(wanted);
      }
    }
    await early.append([]);
    const late = await open(served);
    for (const log of [early, late]) {
      expect((await collect(log.readStream(a))).map(numberOf)).toEqual(wanted);
      expect((await collect(log.readStream(a, { direction: 'backwards', maxCount: 2 }))).map(numberOf)).toEqual([
        117, 114,
      ]);
      expect((await collect(log.readStream(streamName('thing', 'other1')))).map(numberOf)).toEqual([1]);
      expect(await collect(log.readStream(streamName('thing', 'none')))).toEqual([]);
    }
    await served.log.settled();
    for (const log of [early, late]) expect((await collect(log.readStream(a))).map(numberOf)).toEqual(wanted);
  });
});

describe('a live subscription', () => {
  it('reads each event once', async () => {
    const served = await serve();
    const disk = countingDisk();
    const log = await open(served, disk);
    const total = 200;
    const body = Buffer.alloc(5_000);
    const seen: number[] = [];
    const following = (async () => {
      for await (const item of log.subscribe()) {
        if (isEvent(item)) seen.push(numberOf(item));
        if (seen.length === total) return;
      }
    })();
    await log.append([]);
    for (let n = 0; n < total; n++) await served.log.append([write(a, 'any', noted({ n }, { body }))]);
    await following;
    expect(seen).toEqual(Array.from({ length: total }, (_, n) => n));
    expect(disk.bytes).toBeLessThan(total * 6_000 + 200_000);
  });
});
