import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { backupLog } from '../../src/events/embedded/backup/backup-log.ts';
import { restoreLog } from '../../src/events/embedded/backup/restore-log.ts';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { parsePosition } from '../../src/events/event.ts';
import { changeFact, eventsIn, flip, logOf, manifestsOf, small } from './backups.ts';
import { faultyDisk } from './faulty-disk.ts';
import { appendThings, fileOf, filesOf, openTestLog, readAll, temporaryDirectory, until } from './log-files.ts';

describe('the backup of a log', () => {
  it('has, while the log is written, rotated and compressed, all that was on disk at its start, and restores to it', async () => {
    const { dir, log, to } = await logOf(20, { segmentBytes: 20_000 });
    let stopped = false;
    onTestFinished(() => {
      stopped = true;
    });
    const load = (async () => {
      for (let n = 20; !stopped; n += 5) await appendThings(log, n, 5, 200);
    })();
    let before = 0;
    for (let round = 0; round < 6; round++) {
      const acknowledged = parsePosition(await log.head());
      const { last } = await backupLog(dir, to, { quick: round % 2 === 0 });
      expect(last).toBeGreaterThanOrEqual(acknowledged);
      expect(last).toBeGreaterThan(before);
      expect(await checkLog(to)).toMatchObject({ problem: undefined, events: last, unfinishedBytes: 0 });
      before = last;
      await until(() => parsePosition(log.status().durableHead) > last);
    }
    stopped = true;
    await load;
    const expected = (await readAll(log)).slice(0, before);
    expect(await eventsIn(to)).toEqual(expected);
    const place = path.join(temporaryDirectory(), 'log');
    expect(await restoreLog(to, place)).toMatchObject({ last: before, events: before });
    const restored = await openTestLog(place, small);
    expect(await readAll(restored)).toEqual(expected);
    await appendThings(restored, 0, 30);
    expect(await restored.head()).toBe(String(before + 30).padStart(16, '0'));
  }, 60_000);

  it('copies only what is new into the same folder', async () => {
    const { dir, log, to } = await logOf(65);
    const first = await backupLog(dir, to);
    expect(first).toMatchObject({ before: undefined, last: 65, copiedSegments: first.segments });
    expect(await backupLog(dir, to)).toMatchObject({ before: 65, last: 65, copiedSegments: 0, copiedBytes: 0 });
    await appendThings(log, 65, 1);
    expect(await backupLog(dir, to)).toMatchObject({ last: 66, copiedSegments: 1 });
    expect(filesOf(to, '.tmp')).toEqual([]);
  });

  it('of an empty log is an empty log', async () => {
    const { dir, to } = await logOf(0);
    expect(await backupLog(dir, to)).toMatchObject({ last: 0, segments: 0 });
    expect(await checkLog(to)).toMatchObject({ problem: undefined, events: 0 });
    await appendThings(await openTestLog(to), 0, 1);
  });

  it('changes no file of the log', async () => {
    const { dir, log, to } = await logOf(40);
    await log.close();
    // SQLite adds empty files beside the index
    const files = () => readdirSync(dir).filter((file) => !file.startsWith('index.db-'));
    const seen = () => files().map((file) => [file, statSync(path.join(dir, file)).mtimeMs]);
    const before = seen();
    await backupLog(dir, to);
    expect(seen()).toEqual(before);
  });

  it.skipIf(process.getuid?.() !== 0)('reads a log on a disk that is mounted for reading only', async ({ skip }) => {
    const { dir, log, to } = await logOf(40);
    await log.close();
    const mounted = temporaryDirectory();
    try {
      execFileSync('mount', ['--bind', dir, mounted], { stdio: 'pipe' });
    } catch {
      return skip('this machine cannot mount');
    }
    onTestFinished(() => void execFileSync('umount', ['--lazy', mounted]));
    execFileSync('mount', ['-o', 'remount,bind,ro', mounted], { stdio: 'pipe' });
    await backupLog(mounted, to);
    expect(await eventsIn(to)).toHaveLength(40);
  });

  it('of a damaged log is refused with the place, and does not look complete', async () => {
    const { dir, log, to } = await logOf(65);
    await log.close();
    const segment = filesOf(dir, '.zst')[2] ?? '';
    flip(segment, 60);
    await expect(backupLog(dir, to)).rejects.toMatchObject({
      code: 'log_corrupted',
      segment: path.basename(segment, '.zst'),
    });
    await expect(restoreLog(to, path.join(temporaryDirectory(), 'log'))).rejects.toThrow(/never completed/);
    await expect(EmbeddedLog.open(to)).rejects.toMatchObject({ code: 'log_incomplete' });
  });

  it('of a log without one of its segments is refused', async () => {
    const { dir, log, to } = await logOf(65);
    await log.close();
    for (const ending of ['.zst', '.json']) rmSync(filesOf(dir, ending)[2] ?? '');
    await expect(backupLog(dir, to)).rejects.toThrow(/are missing/);
  });

  it('keeps what the log has lost', async () => {
    const { dir, log, to } = await logOf(65);
    await backupLog(dir, to);
    await log.close();
    const [lost = ''] = filesOf(dir, '.zst').slice(2);
    for (const ending of ['.zst', '.json']) rmSync(lost.replace('.zst', ending));
    const acceptLoss = { by: 'test', reason: 'test', at: new Date() };
    await (await EmbeddedLog.open(dir, { ...small, acceptLoss })).close();
    await expect(backupLog(dir, to)).rejects.toThrow(/has lost positions/);
    expect(await eventsIn(to)).toHaveLength(65);
    const other = path.join(temporaryDirectory(), 'other');
    await backupLog(dir, other);
    expect(await checkLog(other)).toMatchObject({ problem: undefined });
    expect(await eventsIn(other)).toEqual(await eventsIn(dir));
  });

  it('has the note of a replica, and at least its events', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, small);
    await appendThings(log, 0, 30);
    await log.close();
    const note = JSON.stringify({ format: 'chancery-replica', place: 'offset 7', position: 30 });
    writeFileSync(path.join(dir, 'replica.json'), note);
    const to = path.join(temporaryDirectory(), 'backup');
    expect(await backupLog(dir, to)).toMatchObject({ last: 30, replica: 30 });
    expect(readFileSync(path.join(to, 'replica.json'), 'utf8')).toBe(note);
    const place = path.join(temporaryDirectory(), 'log');
    await restoreLog(to, place);
    expect(readFileSync(path.join(place, 'replica.json'), 'utf8')).toBe(note);
    writeFileSync(path.join(to, 'replica.json'), note.replace('30', '31'));
    await expect(restoreLog(to, `${place}2`)).rejects.toThrow(/replica.json/);
  });
});

describe('a folder for a backup', () => {
  it('that is not empty, is the log, or has another log is refused', async () => {
    const { dir, to } = await logOf(30);
    const other = await logOf(30);
    await backupLog(dir, to);
    const before = filesOf(to, '');
    await expect(backupLog(other.dir, to)).rejects.toThrow(/a backup of another log/);
    await expect(backupLog(dir, dir)).rejects.toThrow(/not apart/);
    await expect(backupLog(dir, path.join(dir, 'backup'))).rejects.toThrow(/not apart/);
    await expect(backupLog(dir, other.dir)).rejects.toThrow(/is not empty and has no backup/);
    await expect(backupLog(temporaryDirectory(), to)).rejects.toThrow(/no event log/);
    expect(filesOf(to, '')).toEqual(before);
  });

  it('that cannot be created is an error', async () => {
    const { dir } = await logOf(3);
    await expect(backupLog(dir, '/proc/chancery/backup')).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('gets a manifest again that was changed', async () => {
    const { dir, to } = await logOf(65);
    await backupLog(dir, to);
    const [table = ''] = manifestsOf(to);
    const text = readFileSync(table, 'utf8');
    changeFact(table);
    expect((await backupLog(dir, to)).repaired).toEqual([path.basename(table, '.json')]);
    expect(readFileSync(table, 'utf8')).toBe(text);
    await restoreLog(to, path.join(temporaryDirectory(), 'log'));
  });

  it('that was opened as a log is refused', async () => {
    const { dir, to } = await logOf(30);
    await backupLog(dir, to);
    await appendThings(await openTestLog(to, small), 30, 1);
    await expect(backupLog(dir, to)).rejects.toThrow(/a gateway has written into the backup/);
  });

  it('that has events which the log has not, or other ones, is refused', async () => {
    const { dir, log, to } = await logOf(30);
    const place = path.join(temporaryDirectory(), 'log');
    const early = path.join(temporaryDirectory(), 'early');
    await backupLog(dir, early);
    await appendThings(log, 30, 1);
    await backupLog(dir, to);
    await restoreLog(early, place);
    await expect(backupLog(place, to)).rejects.toThrow(/later or another state|other events/);
    await appendThings(await openTestLog(place, small), 100, 40);
    await expect(backupLog(place, to)).rejects.toThrow(/other events/);
    expect(await eventsIn(to)).toEqual(await readAll(log));
  });

  it('in which a file was damaged gets it again', async () => {
    const { dir, to } = await logOf(65);
    await backupLog(dir, to);
    const [sealed = '', table = '', raw = ''] = [filesOf(to, '.zst')[1], manifestsOf(to)[3], fileOf(to, '.seg')];
    flip(sealed, 80);
    truncateSync(table, 50);
    flip(raw, 100);
    const names = [sealed, table, raw].map((file) => path.basename(file).slice(0, 16));
    expect((await backupLog(dir, to)).repaired.toSorted()).toEqual(names.toSorted());
    expect(await checkLog(to)).toMatchObject({ problem: undefined, events: 65 });
  });
});

describe('a backup that is interrupted', () => {
  it('at any change of its folder is no log at first, later the log up to an earlier end, and is continued', async () => {
    const { dir, log, to } = await logOf(40);
    for (const [events, least] of [
      [40, 0],
      [80, 40],
    ] as const) {
      if (events === 80) await appendThings(log, 40, 40);
      await log.settled();
      for (let change = 1; ; change++) {
        const copy = path.join(temporaryDirectory('memory'), 'copy');
        if (least > 0) cpSync(to, copy, { recursive: true });
        if (await interrupted(dir, copy, change)) {
          const found = await checkLog(copy).catch((error: Error) => ({ problem: error, unfinishedBytes: 0 }));
          // the identity is the last file
          const isLog = existsSync(path.join(copy, 'log.json'));
          expect([found.problem === undefined, found.unfinishedBytes]).toEqual([isLog, 0]);
          if (isLog) expect((await eventsIn(copy)).length).toBeGreaterThanOrEqual(Math.max(least, 40));
          else expect(least).toBe(0);
          if (least > 0) {
            const place = path.join(temporaryDirectory('memory'), 'log');
            expect((await restoreLog(copy, place)).last).toBeGreaterThanOrEqual(least);
            rmSync(place, { recursive: true });
          }
        }
        const isDone = (await backupLog(dir, copy)).copiedSegments === 0;
        expect(await checkLog(copy)).toMatchObject({ problem: undefined, events });
        rmSync(copy, { recursive: true });
        if (isDone && change > 10) break;
      }
      await backupLog(dir, to);
    }
  }, 120_000);

  async function interrupted(dir: string, to: string, change: number): Promise<boolean> {
    const disk = faultyDisk();
    let changes = 0;
    disk.beforeChange = () => {
      if (++changes >= change) throw new Error('killed');
    };
    try {
      await backupLog(dir, to, { disk });
      return false;
    } catch (error) {
      expect(error).toMatchObject({ message: 'killed' });
      return true;
    }
  }

  it('by a full disk keeps the backup before it', async () => {
    const { dir, log, to } = await logOf(30);
    await backupLog(dir, to);
    const before = await eventsIn(to);
    await appendThings(log, 30, 30);
    const disk = faultyDisk();
    disk.failWrites('ENOSPC', 3_000);
    await expect(backupLog(dir, to, { disk })).rejects.toMatchObject({ code: 'ENOSPC' });
    expect(await checkLog(to)).toMatchObject({ problem: undefined });
    expect((await eventsIn(to)).slice(0, 30)).toEqual(before);
    expect(await backupLog(dir, to)).toMatchObject({ before: 30, last: 60 });
  });
});
