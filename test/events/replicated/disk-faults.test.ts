import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { mintEventId } from '../../../src/events/event-id.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { hasPosition, linesOf, whenState } from '../../contract/recovery.ts';
import { MemoryEngineStore, turns } from '../../support/memory-engine.ts';
import { Replica } from '../../support/replicas.ts';
import { type FaultyDisk, faultyDisk } from '../faulty-disk.ts';

const a = streamName('thing', 'a');
const b = streamName('thing', 'b');

describe('a replica whose disk is full', () => {
  it.each([0, 100])(
    'has every event of its engine, once and in order, when there is room again (%i bytes were written)',
    async (writtenBytes) => {
      const store = new MemoryEngineStore();
      const disk = faultyDisk();
      const replica = await Replica.open(() => store.connect(), { disk });
      const other = await Replica.open(() => store.connect());
      await replica.log.append([write(a, 'noStream', noted({ n: 0 }))]);
      disk.failWrites('ENOSPC', writtenBytes);
      const own = replica.log.append([write(a, 0n, noted({ n: 1 }))]);
      for (let n = 2; n < 200; n++) {
        const body = Buffer.alloc(n % 7 === 0 ? 20_000 : 10, n);
        // some are refused, some are repeated
        await other.log
          .append([write(n % 3 ? a : b, n % 5 ? 'any' : 'noStream', noted({ n }, { body }))])
          .catch(() => {});
      }
      await whenState(replica.log, 'unavailable');
      expect(replica.log.status().reason).toMatch(/ENOSPC/);
      await turns(10);
      expect(await collect(replica.log.readAll())).toHaveLength(1);
      disk.failWrites(undefined);
      await whenState(replica.log, 'ok');
      expect(await own.catch((error: { outcome: unknown }) => error.outcome)).not.toBe('none');
      await hasPosition(replica.log, await other.log.head());
      expect(await linesOf(replica.log)).toEqual(await linesOf(other.log));
      await replica.reopen();
      const { position } = await replica.log.append([write(b, 'any', noted({ n: 'last' }))]);
      await hasPosition(other.log, position);
      expect(await linesOf(replica.log)).toEqual(await linesOf(other.log));
      await Promise.all([replica.dispose(), other.dispose()]);
    },
  );

  it('has appends with an unknown outcome after their time limit, and records them once when there is room again', async () => {
    const store = new MemoryEngineStore();
    const disk = faultyDisk();
    const replica = await Replica.open(() => store.connect(), { disk, timing: { outcomeTimeoutMs: 200 } });
    await replica.log.append([write(a, 'noStream', noted({ n: 0 }))]);
    disk.failWrites('ENOSPC');
    const event = noted({ n: 1 }, { id: mintEventId() });
    const waiting = replica.log.append([write(a, 0n, event)]);
    await whenState(replica.log, 'unavailable');
    // refused at once, and not sent: it could not be placed
    await expect(replica.log.append([write(b, 'any', noted({ n: 2 }))])).rejects.toMatchObject({
      outcome: 'none',
      message: expect.stringContaining('ENOSPC'),
    });
    expect(store.appends.some(({ writes }) => writes[0]?.stream === b)).toBe(false);
    await expect(waiting).rejects.toMatchObject({ outcome: 'unknown' });
    await expect(replica.log.append([write(a, 'any', noted({ n: 2 }))])).rejects.toMatchObject({ outcome: 'none' });
    disk.failWrites(undefined);
    await whenState(replica.log, 'ok');
    expect(await replica.log.append([write(a, 0n, event)])).toMatchObject({ revisions: [1n] });
    expect(await collect(replica.log.readAll())).toHaveLength(2);
    await replica.dispose();
  });

  it('is opened when there is room again if it had none while it caught up', async () => {
    const store = new MemoryEngineStore({ batchSize: () => 10 });
    const other = await Replica.open(() => store.connect());
    for (let n = 0; n < 300; n++) {
      await other.log.append([write(n % 2 ? a : b, 'any', noted({ n }, { body: Buffer.alloc(1_000, n) }))]);
    }
    const disk = faultyDisk();
    const delayed = Promise.withResolvers<string>();
    const causes: string[] = [];
    const onDelay = (reason: string, cause: string) => {
      causes.push(cause);
      delayed.resolve(reason);
    };
    const onProgress = () => {
      if (++batches === 1) disk.failWrites('ENOSPC', 30_000);
    };
    let batches = 0;
    const opening = Replica.open(() => store.connect(), { disk, onProgress, onDelay });
    opening.catch(delayed.reject);
    expect(await delayed.promise).toMatch(/ENOSPC/);
    await turns(2_000);
    disk.failWrites(undefined);
    const replica = await opening;
    expect(causes).toEqual(['replica']);
    expect(await linesOf(replica.log)).toEqual(await linesOf(other.log));
    await replica.reopen();
    expect(await linesOf(replica.log)).toEqual(await linesOf(other.log));
    await Promise.all([replica.dispose(), other.dispose()]);
  });

  it('is refused with what to do when its files are damaged, and is read anew without its folder', async () => {
    const store = new MemoryEngineStore();
    const replica = await Replica.open(() => store.connect());
    for (let n = 0; n < 100; n++) await replica.log.append([write(a, 'any', noted({ n }))]);
    const before = await linesOf(replica.log);
    await replica.log.close();
    const [segment = ''] = (await readdir(replica.dir)).filter((name) => /\d{6,}/.test(name));
    const file = path.join(replica.dir, segment);
    const bytes = await readFile(file);
    const at = Math.floor(bytes.length / 4);
    await writeFile(file, bytes.fill(7, at, at + 64));
    await expect(replica.reopen()).rejects.toThrow(/^the replica of the log in .* is damaged: .* delete the folder/);
    await replica.reopen({ without: 'its folder' });
    expect(await linesOf(replica.log)).toEqual(before);
    await replica.dispose();
  });

  it('goes on reading when a sync that failed succeeds', async () => {
    const store = new MemoryEngineStore();
    const disk = faultyDisk();
    const [replica, other] = await Promise.all([
      Replica.open(() => store.connect(), { disk }),
      Replica.open(() => store.connect()),
    ]);
    disk.failSyncs('EIO');
    await other.log.append([write(a, 'noStream', noted({ n: 0 }))]);
    await whenState(replica.log, 'unavailable');
    expect(replica.log.status().reason).toMatch(/EIO/);
    for (let n = 1; n < 50; n++) await other.log.append([write(n % 2 ? a : b, 'any', noted({ n }))]);
    disk.failSyncs(undefined);
    await whenState(replica.log, 'ok');
    await hasPosition(replica.log, await other.log.head());
    await replica.reopen();
    expect(await linesOf(replica.log)).toEqual(await linesOf(other.log));
    await Promise.all([replica.dispose(), other.dispose()]);
  });

  it.each([
    ['writes', (disk: FaultyDisk, code?: string) => disk.failWrites(code)],
    ['syncs', (disk: FaultyDisk, code?: string) => disk.failSyncs(code)],
  ])('can be closed while %s fail, and has every event when it is opened again', async (_, fail) => {
    const store = new MemoryEngineStore();
    const disk = faultyDisk();
    const [replica, other] = await Promise.all([
      Replica.open(() => store.connect(), { disk }),
      Replica.open(() => store.connect()),
    ]);
    await other.log.append([write(a, 'noStream', noted({ n: 0 }))]);
    await expect.poll(() => replica.log.status().durableHead).toBe(await other.log.head());
    fail(disk, 'ENOSPC');
    for (let n = 1; n < 20; n++) await other.log.append([write(a, 'any', noted({ n }))]);
    await whenState(replica.log, 'unavailable');
    await replica.log.close();
    fail(disk);
    const again = await Replica.open(() => store.connect(), { dir: replica.dir });
    expect(await linesOf(again.log)).toEqual(await linesOf(other.log));
    await Promise.all([again.dispose(), other.dispose()]);
  });
});
