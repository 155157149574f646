import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { EmbeddedLog, EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { LogCorrupted } from '../../src/events/embedded/log-errors.ts';
import { streamName } from '../../src/events/event.ts';
import { collect } from '../contract/event-log.ts';
import { faultyDisk } from './faulty-disk.ts';
import {
  appendThing,
  appendThings,
  fileOf,
  filesOf,
  openTestLog,
  readThings,
  temporaryDirectory,
  thing,
  until,
  upTo,
} from './log-files.ts';

const small: EmbeddedLogOptions = { segmentBytes: 1_500 };

/** All full segments are compressed, and nothing else is left. */
function isSettled(dir: string): boolean {
  return filesOf(dir, '.seg').length === 1 && filesOf(dir, '.tmp').length === 0;
}

async function sealedLog(count = 40): Promise<{ dir: string; log: EmbeddedLog }> {
  const dir = temporaryDirectory('memory');
  const log = await openTestLog(dir, small);
  await appendThings(log, 0, count);
  await until(() => isSettled(dir));
  return { dir, log };
}

async function expectStreams(log: EmbeddedLog, count: number): Promise<void> {
  for (const id of [0, 1, 2]) {
    const stream = streamName('thing', String(id));
    const numbers = upTo(count).filter((n) => n % 3 === id);
    if (numbers.length === 0) continue;
    const events = await collect(log.readStream(stream));
    expect(events.map(({ data }) => (data as { n: number }).n)).toEqual(numbers);
    expect(events.map(({ revision }) => Number(revision))).toEqual(upTo(numbers.length));
    const [last] = await collect(log.readStream(stream, { direction: 'backwards', maxCount: 1 }));
    expect(last?.data).toEqual({ n: numbers.at(-1) });
  }
}

describe('full segments', () => {
  it('are compressed in the background, and read as before', async () => {
    const { dir, log } = await sealedLog();
    expect(filesOf(dir, '.zst').length).toBeGreaterThan(3);
    expect(filesOf(dir, '.json').filter((file) => /\d{16}\.json$/.test(file))).toHaveLength(
      filesOf(dir, '.zst').length,
    );
    expect(await readThings(log)).toEqual(upTo(40));
    await expectStreams(log, 40);
    const [, , third] = await collect(log.readAll());
    const rest = await collect(log.readAll({ after: third?.position }));
    expect(rest.map(({ data }) => (data as { n: number }).n)).toEqual(upTo(40).slice(3));
  });

  it('are found again at the next opening, with their streams', async () => {
    const { dir, log } = await sealedLog();
    await log.close();
    const reopened = await openTestLog(dir, small);
    await expectStreams(reopened, 40);
    const stream = streamName('thing', '0');
    const again = reopened.append([{ stream, events: [thing(-1)], expectedRevision: 'noStream' }]);
    await expect(again).rejects.toMatchObject({ code: 'wrong_expected_revision', actual: 13n });
    await appendThings(reopened, 40, 20);
    await until(() => isSettled(dir));
    await expectStreams(reopened, 60);
  });

  it('may be compressed and removed while someone reads them', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { ...small, seal: false });
    await appendThings(log, 0, 60);
    await log.close();
    const sealing = await openTestLog(dir, small);
    const seen: unknown[] = [];
    for await (const event of sealing.readAll()) {
      seen.push((event.data as { n: number }).n);
      if (seen.length === 10) await until(() => isSettled(dir));
    }
    expect(seen).toEqual(upTo(60));
  });

  it('survive a crash before each single change of a file, with everything that had been acknowledged', async () => {
    const dir = temporaryDirectory('memory');
    const disk = faultyDisk();
    const snapshots: { copy: string; acknowledged: number }[] = [];
    let acknowledged = 0;
    const log = await openTestLog(dir, { ...small, disk });
    disk.beforeChange = () => {
      const copy = temporaryDirectory('memory');
      cpSync(dir, copy, { recursive: true });
      snapshots.push({ copy, acknowledged });
    };
    for (let n = 0; n < 30; n++) {
      await appendThing(log, n, Buffer.alloc(20));
      acknowledged = n + 1;
    }
    await until(() => isSettled(dir));
    disk.beforeChange = () => {};
    await log.close();
    expect(snapshots.length).toBeGreaterThan(60);
    const shapes = new Set<string>();
    for (const { copy, acknowledged: least } of snapshots) {
      shapes.add(
        readdirSync(copy)
          .map((file) => path.extname(file))
          .toSorted()
          .join(),
      );
      const reopened = await openTestLog(copy, small);
      const things = await readThings(reopened);
      expect(things.length).toBeGreaterThanOrEqual(least);
      expect(things).toEqual(upTo(things.length));
      await expectStreams(reopened, things.length);
      await reopened.close();
      rmSync(copy, { recursive: true });
    }
    expect(shapes.size).toBeGreaterThan(5);
  });

  it('stay uncompressed when they cannot be compressed, and are tried again', async () => {
    const dir = temporaryDirectory();
    const disk = faultyDisk();
    const warnings: string[] = [];
    const log = await openTestLog(dir, { ...small, disk, warn: (message) => warnings.push(message) });
    disk.beforeChange = (operation) => {
      if (operation === 'rename') throw Object.assign(new Error('ENOSPC: injected'), { code: 'ENOSPC' });
    };
    await appendThings(log, 0, 20);
    await until(() => warnings.length > 0);
    expect(await readThings(log)).toEqual(upTo(20));
    disk.beforeChange = () => {};
    await until(() => isSettled(dir));
    expect(await readThings(log)).toEqual(upTo(20));
  });
});

describe('a sealed segment with a changed byte', () => {
  it('is never read with other contents, wherever the byte is', async () => {
    const { dir, log } = await sealedLog(15);
    await log.close();
    for (const file of filesOf(dir, '.zst')) {
      const bytes = readFileSync(file);
      for (let offset = 0; offset < bytes.length; offset++) {
        const changed = Buffer.from(bytes);
        changed[offset] = (changed[offset] ?? 0) ^ (offset % 2 === 0 ? 0x01 : 0xff);
        writeFileSync(file, changed);
        const damaged = await openTestLog(dir, { seal: false });
        const seen: unknown[] = [];
        try {
          for await (const event of damaged.readAll()) seen.push((event.data as { n: number }).n);
          // a bit that zstd does not use: the output was right
          expect(seen).toEqual(upTo(15));
        } catch (error) {
          expect(error).toBeInstanceOf(LogCorrupted);
          expect(error).toMatchObject({ segment: path.basename(file, '.zst') });
          expect(seen).toEqual(upTo(seen.length));
        }
        await damaged.close();
      }
      writeFileSync(file, bytes);
    }
  });

  it('is named when its manifest is damaged, and when one of its files is gone', async () => {
    const { dir, log } = await sealedLog();
    await log.close();
    const [manifest = ''] = filesOf(dir, '.json');
    const content = readFileSync(manifest);
    writeFileSync(manifest, content.subarray(0, 50));
    await expect(openTestLog(dir)).rejects.toMatchObject({
      code: 'log_incomplete',
      message: expect.stringContaining('0000000000000001.json, which cannot be read'),
    });
    rmSync(manifest);
    await expect(openTestLog(dir)).rejects.toMatchObject({
      code: 'log_incomplete',
      message: expect.stringContaining('0000000000000001.json'),
    });
  });
});

describe('the stream index', () => {
  const index = (dir: string) => path.join(dir, 'index.db');
  const damages: [string, (dir: string) => void][] = [
    ['deleted', (dir) => rmSync(index(dir))],
    ['overwritten with nonsense', (dir) => writeFileSync(index(dir), 'nonsense '.repeat(2_000))],
    ['cut in half', (dir) => writeFileSync(index(dir), readFileSync(index(dir)).subarray(0, 6_000))],
    ['empty', (dir) => writeFileSync(index(dir), '')],
  ];

  it.each(damages)('comes back when it was %s', async (_, damage) => {
    const { dir, log } = await sealedLog();
    await log.close();
    damage(dir);
    for (const suffix of ['-wal', '-shm']) rmSync(index(dir) + suffix, { force: true });
    const reopened = await openTestLog(dir, small);
    await expectStreams(reopened, 40);
    const stream = streamName('thing', '1');
    const refused = reopened.append([{ stream, events: [thing(-1)], expectedRevision: 'noStream' }]);
    await expect(refused).rejects.toMatchObject({ code: 'wrong_expected_revision', actual: 12n });
    await until(() => existsSync(index(dir)));
  });

  it('is not used when it is of another log', async () => {
    const { dir, log } = await sealedLog();
    const other = await sealedLog(60);
    await log.close();
    await other.log.close();
    cpSync(index(other.dir), index(dir));
    const reopened = await openTestLog(dir, small);
    await expectStreams(reopened, 40);
  });

  it('of a later state of the same log shows that segments are missing, and is made again without them', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, small);
    await appendThings(log, 0, 40);
    await until(() => isSettled(dir));
    await log.close();
    const backup = temporaryDirectory();
    cpSync(dir, backup, { recursive: true });
    const later = await openTestLog(dir, small);
    await appendThings(later, 40, 40);
    await until(() => isSettled(dir));
    await later.close();
    cpSync(index(dir), index(backup));
    await expect(openTestLog(backup, small)).rejects.toMatchObject({ code: 'log_incomplete' });
    const acceptLoss = { by: 'olga', reason: 'restored from a backup', at: new Date(0) };
    const restored = await openTestLog(backup, { ...small, acceptLoss });
    await expectStreams(restored, 40);
  });

  it('lets appends to new streams pass while it is made again, and lets the others wait', async () => {
    const { dir, log } = await sealedLog(200);
    await log.close();
    rmSync(index(dir));
    const reopened = await openTestLog(dir, small);
    const order: string[] = [];
    const old = streamName('thing', '1');
    const fresh = streamName('thing', '9');
    await Promise.all([
      reopened
        .append([{ stream: old, events: [thing(-1)], expectedRevision: 66n }])
        .then(({ revisions }) => order.push(`old ${revisions}`)),
      reopened
        .append([{ stream: fresh, events: [thing(-1)], expectedRevision: 'noStream' }])
        .then(({ revisions }) => order.push(`fresh ${revisions}`)),
    ]);
    expect(order.toSorted()).toEqual(['fresh 0', 'old 67']);
  });

  it('is made again also when the log ended in a torn write', async () => {
    const { dir, log } = await sealedLog();
    await log.close();
    rmSync(index(dir));
    writeFileSync(fileOf(dir, '.seg'), 'torn', { flag: 'a' });
    const reopened = await openTestLog(dir, small);
    expect(reopened.recovery).toMatchObject({ cutBytes: 4 });
    await expectStreams(reopened, 40);
    expect(await collect(reopened.readStream(streamName('log', 'embedded')))).toHaveLength(1);
  });

  it('does not hide a stream whose name sorts before others of its category', async () => {
    const { log, dir } = await sealedLog();
    const stream = streamName('thing', '/earlier');
    await log.append([{ stream, events: [thing(40)], expectedRevision: 'noStream' }]);
    await appendThings(log, 41, 19);
    await until(() => isSettled(dir));
    const again = log.append([{ stream, events: [thing(-1)], expectedRevision: 'noStream' }]);
    await expect(again).rejects.toMatchObject({ actual: 0n });
    expect(await collect(log.readStream(stream))).toHaveLength(1);
  });
});
