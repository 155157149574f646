import { spawn } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it, onTestFinished } from 'vitest';
import { copyLog } from '../../src/events/copy/copy-log.ts';
import { backupLog } from '../../src/events/embedded/backup/backup-log.ts';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { type Disk, nodeDisk } from '../../src/events/embedded/disk.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { streamName } from '../../src/events/event.ts';
import { collect } from '../contract/event-log.ts';
import { appendThing, appendThings, openTestLog, temporaryDirectory, thing, upTo } from './log-files.ts';

const small = { segmentBytes: 1_500 };
const early = streamName('thing', 'early');
const index = (dir: string) => path.join(dir, 'index.db');

/** A closed log of many segments, all but the last in the index; the stream `early` is only in the first. */
async function indexedLog(): Promise<string> {
  const dir = temporaryDirectory();
  const log = await openTestLog(dir, small);
  await log.append([{ stream: early, events: [thing(1_000), thing(1_001)], expectedRevision: 'noStream' }]);
  await appendThings(log, 0, 80);
  await log.settled();
  await log.close();
  return dir;
}

const copyInto = (from: string, to: string) =>
  copyLog({ folder: from }, { folder: to }, { signal: new AbortController().signal });

/** Opens the log as another process does; `opened` are the names of segments that were opened since. */
async function openReader(dir: string): Promise<{ log: ReadOnlyLog; opened: Set<string> }> {
  const opened = new Set<string>();
  const disk: Disk = {
    ...nodeDisk,
    open: (file, mode) => {
      const segment = /^(\d{16})\.(seg|zst)$/.exec(path.basename(file))?.[1];
      if (segment !== undefined) opened.add(segment);
      return nodeDisk.open(file, mode);
    },
  };
  const log = await ReadOnlyLog.open(dir, { disk });
  onTestFinished(() => log.close());
  opened.clear();
  return { log, opened };
}

async function numbers(log: ReadOnlyLog, stream = early): Promise<unknown[]> {
  return (await collect(log.readStream(stream))).map(({ data }) => (data as { n: number }).n);
}

describe('reading a closed log', () => {
  it.each([
    ['check', (dir: string) => checkLog(dir)],
    ['backup', (dir: string) => backupLog(dir, path.join(temporaryDirectory(), 'backup'))],
    ['copy', (dir: string) => copyInto(dir, path.join(temporaryDirectory(), 'copy'))],
  ])('for a %s leaves no file behind and uses the index', async (_, read) => {
    const dir = await indexedLog();
    rmSync(path.join(dir, 'writer.lock'));
    const before = readdirSync(dir);
    await read(dir);
    expect(readdirSync(dir)).toEqual(before);
    const [last] = readdirSync(dir)
      .filter((file) => file.endsWith('.zst'))
      .toSorted()
      .slice(-1);
    for (const kind of ['zst', 'json']) rmSync(path.join(dir, `${last?.slice(0, 16)}.${kind}`));
    for (const file of readdirSync(dir).filter((name) => name.endsWith('.seg'))) rmSync(path.join(dir, file));
    const damage = await read(dir).then((result) => ('problem' in result ? result.problem : undefined), String);
    expect(damage).toBeDefined();
  });
});

describe('reading one stream from another process', () => {
  it('opens only the segments that hold it, and those that are not in the index', async () => {
    const dir = await indexedLog();
    const { log, opened } = await openReader(dir);
    expect(await numbers(log)).toEqual([1_000, 1_001]);
    expect(log.status().segments).toBeGreaterThan(8);
    expect(opened.size).toBeLessThanOrEqual(2);
    opened.clear();
    expect(await numbers(log, streamName('thing', 'none'))).toEqual([]);
    expect(opened.size).toBeLessThanOrEqual(1);
  });

  it('reads the events of the index and later ones, while the log is open for writing', async () => {
    const dir = await indexedLog();
    const { log, opened } = await openReader(dir);
    const writer = await openTestLog(dir, { ...small, segmentBytes: 1_000_000 });
    for (let n = 0; n < 5; n++) {
      await writer.append([{ stream: early, events: [thing(1_002 + n)], expectedRevision: BigInt(n + 1) }]);
      opened.clear();
      expect(await numbers(log)).toEqual(upTo(n + 3).map((later) => 1_000 + later));
      expect(opened.size).toBeLessThanOrEqual(2);
    }
  });

  it('changes no file', async () => {
    const dir = await indexedLog();
    const before = readdirSync(dir).map((file) => [file, readFileSync(path.join(dir, file)).toString('latin1')]);
    const { log } = await openReader(dir);
    await numbers(log);
    expect(readdirSync(dir).map((file) => [file, readFileSync(path.join(dir, file)).toString('latin1')])).toEqual(
      before,
    );
  });

  const damages: [string, (dir: string) => void][] = [
    ['missing', (dir) => rmSync(index(dir))],
    ['nonsense', (dir) => writeFileSync(index(dir), 'nonsense '.repeat(2_000))],
    ['cut in half', (dir) => writeFileSync(index(dir), readFileSync(index(dir)).subarray(0, 6_000))],
    ['that of another log', () => {}],
    ['without some of its rows', (dir) => change(dir, 'delete from places where segment between 10 and 50')],
    ['without some of its segments', (dir) => change(dir, 'delete from segments where first < 30')],
    ['wrong about places', (dir) => change(dir, "update places set frames = x'0100', last_revision = 9")],
  ];

  it.each(damages)('gives the same when the index is %s', async (what, damage) => {
    const dir = await indexedLog();
    if (what === 'that of another log') cpSync(index(await indexedLog()), index(dir));
    damage(dir);
    const { log } = await openReader(dir);
    expect(await numbers(log)).toEqual([1_000, 1_001]);
    expect(await numbers(log, streamName('thing', '1'))).toEqual(upTo(80).filter((n) => n % 3 === 1));
  });

  it('finds every event that the writer has acknowledged, while it indexes and compresses', async () => {
    const dir = temporaryDirectory();
    const child = spawn(process.execPath, [path.join(import.meta.dirname, 'log-process.ts'), 'append', dir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    let acknowledged = Number((await lines.next()).value);
    const { log } = await openReader(dir);
    while (acknowledged < 1_500) {
      const line = await lines.next();
      acknowledged = Number(line.value);
      if (acknowledged % 50 !== 0) continue;
      const found = await numbers(log, streamName('thing', 'a'));
      expect(found.length).toBeGreaterThan(acknowledged);
      expect(found).toEqual(upTo(found.length));
    }
    expect(log.status().segments).toBeGreaterThan(5);
  });

  it('is also right beside a writer in the same process', async () => {
    const dir = await indexedLog();
    const writer = await openTestLog(dir, small);
    const { log } = await openReader(dir);
    for (let n = 80; n < 140; n++) {
      await appendThing(writer, n, Buffer.alloc(20));
      expect(await numbers(log, streamName('thing', String(n % 3)))).toEqual(
        upTo(n + 1).filter((each) => each % 3 === n % 3),
      );
    }
  });
});

function change(dir: string, sql: string): void {
  const database = new DatabaseSync(index(dir));
  database.exec(sql);
  database.close();
}
