import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ArchiveTask } from '../../src/events/embedded/archive/archive-segment.ts';
import { ThreadedArchivist } from '../../src/events/embedded/archive/threaded-archivist.ts';
import { LogCorrupted } from '../../src/events/embedded/log-errors.ts';
import {
  appendThing,
  appendThings,
  filesOf,
  openTestLog,
  readThings,
  temporaryDirectory,
  until,
  upTo,
} from './log-files.ts';

const small = { segmentBytes: 1_500, disk: undefined };

/** Nice values of this process's threads. */
function niceValues(): number[] {
  return readdirSync('/proc/self/task').map((thread) => {
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
  });
}

/** A closed log with full segments that are neither indexed nor compressed. */
async function unarchivedLog(): Promise<{ dir: string; mark: number }> {
  const dir = temporaryDirectory();
  const log = await openTestLog(dir, { ...small, seal: false });
  await appendThings(log, 0, 40);
  await log.close();
  return { dir, mark: log.mark };
}

function archivistOf({ dir, mark }: { dir: string; mark: number }): ThreadedArchivist {
  const archivist = new ThreadedArchivist(dir, mark);
  onTestFinished(() => archivist.close());
  return archivist;
}

/** The task to archive the first segment. */
function firstTask(dir: string): ArchiveTask {
  const [first = '', second = ''] = filesOf(dir, '.seg').map((file) => path.basename(file, '.seg'));
  return { name: first, first: Number(first), last: Number(second) - 1, index: true, seal: true };
}

describe('archiving full segments', () => {
  it('waits while the process is busy, and catches up by itself', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, small);
    await appendThings(log, 0, 20);
    const full = filesOf(dir, '.seg').length - 1;
    for (const busy = Date.now() + 2_500; Date.now() < busy; ) await nextTurn();
    expect(filesOf(dir, '.zst')).toEqual([]);
    expect(log.status().uncompressedBytes).toBe(full * small.segmentBytes);
    await until(() => log.status().uncompressedBytes === 0);
    expect(filesOf(dir, '.zst')).toHaveLength(full);
  });

  it('continues while the thread that appends is busy, when no more segments may wait', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { ...small, archiveBacklogBytes: 0 });
    await appendThings(log, 0, 20);
    await until(() => filesOf(dir, '.seg').length === 1);
    const before = filesOf(dir, '.zst').length;
    for (let n = 20; log.status().segments === before + 1; n++) await appendThing(log, n, Buffer.alloc(200));
    for (let turns = 0; turns < 20; turns++) await nextTurn();
    // nothing else runs on this thread in the meantime
    for (const patience = Date.now() + 10_000; Date.now() < patience; ) {
      if (filesOf(dir, '.zst').length > before && filesOf(dir, '.seg').length === 1) break;
    }
    expect(filesOf(dir, '.zst')).toHaveLength(before + 1);
    expect(filesOf(dir, '.seg')).toHaveLength(1);
  });

  it('lowers the priority of one thread, and of no other', async () => {
    const own = niceValues();
    const log = await openTestLog(temporaryDirectory(), small);
    await appendThings(log, 0, 20);
    await until(() => log.status().uncompressedBytes === 0);
    expect(niceValues().filter((nice) => !own.includes(nice))).toEqual([19]);
  });

  it('is tried again when it fails, and nothing is lost', async () => {
    const dir = temporaryDirectory();
    const warnings: unknown[] = [];
    const log = await openTestLog(dir, { ...small, warn: (_message, error) => warnings.push(error) });
    const inTheWay = path.join(dir, 'index.db');
    mkdirSync(inTheWay);
    await appendThings(log, 0, 20);
    await until(() => warnings.length > 0);
    expect(await readThings(log)).toEqual(upTo(20));
    rmdirSync(inTheWay);
    await log.settled();
    expect(existsSync(inTheWay)).toBe(true);
    expect(filesOf(dir, '.seg')).toHaveLength(1);
    expect(await readThings(log)).toEqual(upTo(20));
  });

  it('names a damaged segment and leaves it unchanged', async () => {
    const { dir } = await unarchivedLog();
    const [damaged = ''] = filesOf(dir, '.seg');
    const bytes = readFileSync(damaged);
    bytes[70] = (bytes[70] ?? 0) ^ 0xff;
    writeFileSync(damaged, bytes);
    const warnings: unknown[] = [];
    await openTestLog(dir, { ...small, warn: (_message, error) => warnings.push(error) });
    await until(() => warnings.length > 0);
    expect(warnings[0]).toBeInstanceOf(LogCorrupted);
    expect(warnings[0]).toMatchObject({ segment: path.basename(damaged, '.seg'), reason: 'payload damaged' });
    expect(readFileSync(damaged)).toEqual(bytes);
  });

  it('is cancelled by closing the log, and done at the next opening', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { segmentBytes: 1_000_000, disk: undefined });
    await Promise.all(upTo(1_500).map((n) => appendThing(log, n, Buffer.alloc(1_000, n))));
    await log.close();
    const reopened = await openTestLog(dir, { segmentBytes: 1_000_000, disk: undefined });
    await reopened.settled();
    expect(filesOf(dir, '.seg')).toHaveLength(1);
    expect(filesOf(dir, '.tmp')).toEqual([]);
    expect(await readThings(reopened)).toEqual(upTo(1_500));
  });
});

describe('a thread that archives', () => {
  it('ends a step that is stopped, and takes the next one', async () => {
    const log = await unarchivedLog();
    const archivist = archivistOf(log);
    const stop = new AbortController();
    const stopped = archivist.archive(firstTask(log.dir), 'idle', stop.signal);
    stop.abort(new Error('enough'));
    await expect(stopped).rejects.toThrow('enough');
    const categories = await archivist.archive(firstTask(log.dir), 'idle', new AbortController().signal);
    expect(categories).toEqual({ thing: { streams: 3, begun: 3, greatest: 'thing-2' } });
    expect(filesOf(log.dir, '.zst')).toHaveLength(1);
  });

  it('is replaced when it ends in the middle of a step', async () => {
    const log = await unarchivedLog();
    const archivist = archivistOf(log);
    const { signal } = new AbortController();
    const task = firstTask(log.dir);
    await archivist.archive({ ...task, index: false, seal: false }, 'steady', signal);
    const step = archivist.archive(task, 'steady', signal);
    await Promise.all([expect(step).rejects.toThrow('ended'), archivist.close()]);
    await archivist.archive(task, 'steady', signal);
    expect(filesOf(log.dir, '.zst')).toHaveLength(1);
  });
});
