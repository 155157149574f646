import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LogLocked } from '../../src/events/embedded/log-errors.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import type { RecordedEvent } from '../../src/events/event.ts';
import { streamName } from '../../src/events/event.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { collect } from '../contract/event-log.ts';
import { appendThings, filesOf, openTestLog, readThings, temporaryDirectory, until, upTo } from './log-files.ts';

/** Runs log-process.ts; `lines` are its output. */
function start(...args: string[]): { child: ChildProcess; lines: AsyncIterator<string> } {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, 'log-process.ts'), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  if (child.stdout === null) throw new Error('the process has no output');
  return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
}

async function openReader(dir: string): Promise<ReadOnlyLog> {
  const log = await ReadOnlyLog.open(dir, { pollMs: 5 });
  onTestFinished(() => log.close());
  return log;
}

const numberOf = ({ data }: RecordedEvent) => (data as { n: number }).n;

describe('a log that has a writer', () => {
  it('is refused to a second one, of the same process and of another, with the holder named', async () => {
    const dir = temporaryDirectory();
    const { child, lines } = start('hold', dir);
    await lines.next();
    const error = await openTestLog(dir).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LogLocked);
    expect(error).toMatchObject({ code: 'log_locked', message: expect.stringContaining(`process ${child.pid}`) });
    const own = temporaryDirectory();
    await openTestLog(own);
    await expect(openTestLog(own)).rejects.toBeInstanceOf(LogLocked);
  });

  it('is free at once when its writer was killed, with all events that it had acknowledged', async () => {
    const dir = temporaryDirectory();
    const { child, lines } = start('append', dir);
    let acknowledged = -1;
    while (acknowledged < 300) acknowledged = Number((await lines.next()).value);
    child.kill('SIGKILL');
    for (let line = await lines.next(); !line.done; line = await lines.next()) acknowledged = Number(line.value);
    const log = await openTestLog(dir);
    const things = await readThings(log);
    expect(things.length).toBeGreaterThan(acknowledged);
    expect(things).toEqual(upTo(things.length));
  });

  it('is followed by another process from the beginning, live, and while segments are compressed', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { segmentBytes: 3_000 });
    await appendThings(log, 0, 50);
    const { child, lines } = start('follow', dir, '400');
    // It may have seen everything, and be gone, before the last segment is compressed.
    const exited = once(child, 'exit');
    expect((await lines.next()).value).toBe('caught up after 50');
    for (let n = 50; n < 400; n += 50) {
      await appendThings(log, n, 50);
      await until(() => filesOf(dir, '.seg').length === 1);
    }
    const [code] = await exited;
    expect(code).toBe(0);
  });

  it('shows other processes only what is on disk', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { durability: 'relaxed', commit: { relaxedSyncMs: 60_000 } });
    await appendThings(log, 0, 3);
    expect(await readThings(log)).toEqual([0, 1, 2]);
    const reader = await openReader(dir);
    expect(await readThings(reader)).toEqual([]);
    await log.close();
    expect(await readThings(reader)).toEqual([0, 1, 2]);
  });
});

describe('a log that is opened for reading only', () => {
  it('reads like the writer: all, one stream, both directions, from a position', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir, { segmentBytes: 2_000 });
    await appendThings(log, 0, 60);
    await until(() => filesOf(dir, '.seg').length === 1);
    const reader = await openReader(dir);
    expect(await reader.head()).toBe(await log.head());
    expect(await collect(reader.readAll())).toEqual(await collect(log.readAll()));
    const stream = streamName('thing', '2');
    for (const options of [{}, { direction: 'backwards' as const, maxCount: 3 }, { fromRevision: 7n, maxCount: 2 }]) {
      const expected = await collect(log.readStream(stream, options));
      expect(await collect(reader.readStream(stream, options))).toEqual(expected);
    }
    const after = (await collect(reader.readAll()))[30]?.position;
    expect((await collect(reader.readAll({ after, maxCount: 2 }))).map(numberOf)).toEqual([31, 32]);
    expect(await collect(reader.readStream(streamName('no', 'one')))).toEqual([]);
  });

  it('refuses appends, and changes no file', async () => {
    const dir = temporaryDirectory();
    const log = await openTestLog(dir);
    await appendThings(log, 0, 2);
    await log.close();
    const before = filesOf(dir, '');
    const reader = await openReader(dir);
    await readThings(reader);
    await expect(reader.append()).rejects.toBeInstanceOf(LogUnavailable);
    await reader.close();
    expect(filesOf(dir, '')).toEqual(before);
  });

  it('sees a writer come and go', async () => {
    const dir = temporaryDirectory();
    const first = await openTestLog(dir);
    await appendThings(first, 0, 2);
    await first.close();
    const reader = await openReader(dir);
    const seen: number[] = [];
    const following = (async () => {
      for await (const item of reader.subscribe()) {
        if ('data' in item) seen.push(numberOf(item));
        if (seen.length === 4) return;
      }
    })();
    await until(() => seen.length === 2);
    const second = await openTestLog(dir);
    await appendThings(second, 2, 2);
    await second.close();
    await following;
    expect(seen).toEqual([0, 1, 2, 3]);
  });

  it('reports that there is no log', async () => {
    const dir = temporaryDirectory();
    await expect(ReadOnlyLog.open(path.join(dir, 'nowhere'))).rejects.toThrow(/no event log/);
    await expect(ReadOnlyLog.open(dir)).rejects.toThrow(/no event log/);
  });
});
