/** Copies of logs: onto an engine that loses answers, and what they refuse. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { copyLog } from '../../src/events/copy/copy-log.ts';
import type { CopyPlace } from '../../src/events/copy/stored-records.ts';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { frameHeaderBytes, framePayloadBytes } from '../../src/events/embedded/frame.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { streamName } from '../../src/events/event.ts';
import { ReplicatedLog } from '../../src/events/replicated/replicated-log.ts';
import { createChance } from '../crash/random.ts';
import { makeLogToCopy } from '../support/log-to-copy.ts';
import { MemoryEngineStore, randomFaults } from '../support/memory-engine.ts';
import { someOf } from '../support/seed.ts';
import { appendThings, fileOf, openTestLog, readAll, temporaryDirectory, thing } from './log-files.ts';

const { signal } = new AbortController();
const on = (store: MemoryEngineStore): CopyPlace => ({ engine: () => store.connect(), replica: undefined });

async function eventsIn(folder: string) {
  const log = await ReadOnlyLog.open(folder);
  const events = await readAll(log);
  await log.close();
  return events;
}

async function sourceWith(count: number): Promise<string> {
  const folder = temporaryDirectory('memory');
  const log = await openTestLog(folder, { segmentBytes: 4_000 });
  await appendThings(log, 0, count);
  await log.close();
  return folder;
}

describe('copyLog onto an engine', () => {
  it.each(someOf([1, 2, 3, 4, 5, 6]))(
    'has the same events when the engine fails at random (seed %i)',
    async (seed) => {
      const source = temporaryDirectory('memory');
      await makeLogToCopy(source);
      const store = new MemoryEngineStore(randomFaults(createChance(seed), { appends: 0.4, readers: 0.1 }));
      const { sha256, last } = await copyLog({ folder: source }, on(store), { signal });
      const replica = temporaryDirectory('memory');
      const quiet = new MemoryEngineStore();
      quiet.records.push(...store.records);
      const log = await ReplicatedLog.open({ engine: quiet.connect(), dir: replica });
      expect(await readAll(log)).toEqual(await eventsIn(source));
      await log.close();
      const back = path.join(temporaryDirectory('memory'), 'back');
      expect(await copyLog(on(quiet), { folder: back }, { signal })).toMatchObject({ sha256, last, before: 0 });
    },
    60_000,
  );

  it('goes on when the engine was unavailable, and reports why it waits', async () => {
    const source = await sourceWith(300);
    const store = new MemoryEngineStore();
    const engine = store.connect();
    engine.nextAppends.push({ kind: 'refused' });
    const reasons: string[] = [];
    const place = { engine: () => engine, replica: undefined };
    await copyLog({ folder: source }, place, { signal, onDelay: (reason) => reasons.push(reason) });
    expect(reasons).toContainEqual(expect.stringContaining('refused'));
  });

  it('refuses to go on after events of another writer, and later the whole destination', async () => {
    const source = await sourceWith(5);
    const store = new MemoryEngineStore();
    await copyLog({ folder: source }, on(store), { signal });
    const gateway = await ReplicatedLog.open({ engine: store.connect(), dir: temporaryDirectory('memory') });
    await gateway.append([{ stream: streamName('thing', 'own'), events: [thing(1)], expectedRevision: 'any' }]);
    await gateway.close();
    const before = store.records.length;
    await expect(copyLog({ folder: source }, on(store), { signal })).rejects.toThrow(
      'at position 6: the source ends at 5',
    );
    const log = await EmbeddedLog.open(source);
    await appendThings(log, 5, 3);
    await log.close();
    await expect(copyLog({ folder: source }, on(store), { signal })).rejects.toThrow('at position 6: it has another');
    expect(store.appends.slice(before).flatMap(({ writes }) => writes)).toEqual([]);
  });

  it('appends to a source engine nothing but an append without events', async () => {
    const source = await sourceWith(5);
    const store = new MemoryEngineStore();
    await copyLog({ folder: source }, on(store), { signal });
    const before = store.records.length;
    await copyLog(on(store), { folder: path.join(temporaryDirectory('memory'), 'copy') }, { signal });
    expect(store.appends.slice(before).map(({ writes }) => writes)).toEqual([[]]);
  });
});

describe('the digest of a copy', () => {
  it('is the SHA-256 of the records as they are in the frames', async () => {
    const source = temporaryDirectory('memory');
    const log = await openTestLog(source, { seal: false });
    await appendThings(log, 0, 3);
    await log.close();
    const frames = readFileSync(fileOf(source, '.seg'));
    const hash = createHash('sha256');
    for (let at = 0; at < frames.length; ) {
      const start = at + frameHeaderBytes;
      at = start + framePayloadBytes(frames, at);
      hash.update(frames.subarray(start, at));
    }
    const to = path.join(temporaryDirectory('memory'), 'copy');
    expect((await copyLog({ folder: source }, { folder: to }, { signal })).sha256).toBe(hash.digest('hex'));
  });
});
