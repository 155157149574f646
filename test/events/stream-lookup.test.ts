import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { mintedAfter } from '../../src/events/embedded/archive/closed-segments.ts';
import { LookedUpRevisions } from '../../src/events/embedded/archive/index-file.ts';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import type { EmbeddedLog, EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { streamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import { collect } from '../contract/event-log.ts';
import { someOf } from '../support/seed.ts';
import { emptyAndLockIndex, removeIndex } from './locked-index.ts';
import { appendThings, filesOf, openTestLog, readThings, temporaryDirectory, thing, until, upTo } from './log-files.ts';

const small: EmbeddedLogOptions = { segmentBytes: 1_500 };
const onThread: EmbeddedLogOptions = { ...small, disk: undefined, findOnThread: true };
const things = (id: number) => streamName('thing', String(id));

/** A closed log of many segments, all but the last with events of the streams thing-0, thing-1 and thing-2. */
async function closedLog(options: EmbeddedLogOptions, count = 60): Promise<string> {
  const dir = temporaryDirectory();
  const log = await openTestLog(dir, { ...options, disk: nodeDisk });
  await appendThings(log, 0, count);
  const { segments } = log.status();
  for (let n = 0; log.status().segments < segments + 1; n++) {
    const event = { ...thing(n, Buffer.alloc(300)), type: 'filler.noted' };
    await log.append([{ stream: streamName('filler', 'a'), events: [event], expectedRevision: 'any' }]);
  }
  await log.settled();
  await log.close();
  return dir;
}

async function numbers(log: EmbeddedLog, id: number): Promise<unknown[]> {
  return (await collect(log.readStream(things(id)))).map(({ data }) => (data as { n: number }).n);
}

/** Reads and appends to streams that are in closed segments. */
async function expectAllFound(log: EmbeddedLog): Promise<void> {
  expect(await numbers(log, 1)).toEqual(upTo(60).filter((n) => n % 3 === 1));
  const [last] = await collect(log.readStream(things(2), { direction: 'backwards', maxCount: 1 }));
  expect(last?.data).toEqual({ n: 59 });
  expect(await collect(log.readStream(streamName('thing', '00')))).toEqual([]);
  const taken = log.append([{ stream: things(0), events: [thing(-1)], expectedRevision: 'noStream' }]);
  await expect(taken).rejects.toMatchObject({ code: 'wrong_expected_revision', actual: 19n });
  const appended = await Promise.all([
    log.append([{ stream: things(0), events: [thing(60)], expectedRevision: 19n }]),
    log.append([{ stream: things(0), events: [thing(63)], expectedRevision: 20n }]),
    log.append([
      { stream: things(1), events: [thing(61)], expectedRevision: 'exists' },
      { stream: streamName('thing', '00'), events: [thing(100)], expectedRevision: 'noStream' },
    ]),
    log.append([{ stream: streamName('exchange', mintEventId()), events: [thing(101)], expectedRevision: 'noStream' }]),
  ]);
  expect(appended.map(({ revisions }) => revisions)).toEqual([[20n], [21n], [20n, 0n], [0n]]);
  expect(await numbers(log, 0)).toEqual([...upTo(60).filter((n) => n % 3 === 0), 60, 63]);
}

const places = [
  ['on the thread of the caller', small],
  ['on a thread of its own', onThread],
] as const;

describe.each(someOf(places))('streams of closed segments, found %s', (_where, options) => {
  it('are found through the index', async () => {
    const log = await openTestLog(await closedLog(options), options);
    expect(log.status().unindexedSegments).toBe(0);
    await expectAllFound(log);
  });

  it.each([true, false])('are found while the index cannot be made; compressed: %s', async (seal) => {
    const dir = await closedLog({ ...options, seal });
    const unlock = emptyAndLockIndex(dir);
    const log = await openTestLog(dir, { ...options, seal });
    expect(log.status()).toMatchObject({ state: 'ok', unindexedSegments: log.status().segments - 1 });
    expect(log.status().unindexedSegments).toBeGreaterThan(5);
    await expectAllFound(log);
    expect(log.status().unindexedSegments).toBeGreaterThan(5);
    unlock();
    await until(() => log.status().unindexedSegments === 0);
    expect(await numbers(log, 1)).toEqual([...upTo(60).filter((n) => n % 3 === 1), 61]);
  });

  it('are found while a deleted index is made again, and after that', async () => {
    const dir = await closedLog(options);
    removeIndex(dir);
    const log = await openTestLog(dir, options);
    await expectAllFound(log);
    await log.settled();
    expect(log.status().unindexedSegments).toBe(0);
    expect(await numbers(log, 2)).toEqual(upTo(60).filter((n) => n % 3 === 2));
  });

  it('are dropped from memory when there are too many of them, and found nevertheless', async () => {
    const dir = await closedLog(options);
    const unlock = emptyAndLockIndex(dir);
    const log = await openTestLog(dir, { ...options, seal: false, maxStreamsInMemory: 20 });
    const before = log.status().unindexedSegments;
    const streams = upTo(60).map((n) => streamName('other', `${n * 7919}`));
    for (const stream of streams) await log.append([{ stream, events: [thing(0)], expectedRevision: 'noStream' }]);
    expect(log.status().unindexedSegments).toBeGreaterThan(before + 3);
    const again = streams.map((stream) => log.append([{ stream, events: [thing(1)], expectedRevision: 0n }]));
    for (const { revisions } of await Promise.all(again)) expect(revisions).toEqual([1n]);
    expect(await collect(log.readStream(streams[0] ?? things(0)))).toHaveLength(2);
    unlock();
    await until(() => log.status().unindexedSegments === 0);
    expect(await collect(log.readStream(streams[59] ?? things(0)))).toHaveLength(2);
  });
});

describe('an append with a condition on a stream of closed segments', () => {
  const conditional = (log: EmbeddedLog, expectedRevision: bigint) =>
    log.append([
      { stream: streamName('exchange', mintEventId()), events: [thing(60)], expectedRevision: 'noStream' },
      { stream: things(0), events: [], expectedRevision },
    ]);
  const other = (log: EmbeddedLog) =>
    log.append([{ stream: streamName('exchange', mintEventId()), events: [thing(61)], expectedRevision: 'noStream' }]);

  it('waits for the look-up only the first time', async () => {
    const log = await openTestLog(await closedLog(onThread), onThread);
    const [waiting, passing] = await Promise.all([conditional(log, 19n), other(log)]);
    expect(passing.position < waiting.position).toBe(true);
    const [known, next] = await Promise.all([conditional(log, 19n), other(log)]);
    expect(known.position < next.position).toBe(true);
  });

  it('is judged by what was appended since, also when that has left the memory', async () => {
    const log = await openTestLog(await closedLog(onThread), onThread);
    await conditional(log, 19n);
    await log.append([{ stream: things(0), events: [thing(62)], expectedRevision: 19n }]);
    await expect(conditional(log, 19n)).rejects.toMatchObject({ code: 'wrong_expected_revision', actual: 20n });
    const { segments } = log.status();
    while (log.status().segments < segments + 2) await other(log);
    await log.settled();
    expect(log.status().unindexedSegments).toBe(0);
    await expect(conditional(log, 19n)).rejects.toMatchObject({ code: 'wrong_expected_revision', actual: 20n });
    await conditional(log, 20n);
  });
});

describe('revisions that were looked up', () => {
  it('are kept unless a segment has left the memory since the look-up began', () => {
    const revisions = new LookedUpRevisions();
    const keep = revisions.begin();
    keep(new Map([[things(0), 19]]));
    expect(revisions.get(things(0))).toBe(19);
    const keepLate = revisions.begin();
    revisions.forget();
    keepLate(new Map([[things(1), 19]]));
    expect([revisions.get(things(0)), revisions.get(things(1))]).toEqual([undefined, undefined]);
  });

  it('are kept for a bounded number of streams', () => {
    const revisions = new LookedUpRevisions();
    for (let n = 0; n < 2_500; n++) revisions.begin()(new Map([[things(n), n]]));
    expect(upTo(2_500).filter((n) => revisions.get(things(n)) !== undefined).length).toBeLessThanOrEqual(1_000);
    expect(revisions.get(things(2_499))).toBe(2_499);
  });
});

describe('an append whose stream must be found first', () => {
  it('keeps its place before later ones that share a stream with it', async () => {
    const log = await openTestLog(await closedLog(onThread), onThread);
    const shared = streamName('exchange', mintEventId());
    const appends = [
      [{ stream: shared, events: [thing(60)], expectedRevision: 'noStream' as const }],
      [
        { stream: things(0), events: [thing(61)], expectedRevision: 'any' as const },
        { stream: shared, events: [thing(62)], expectedRevision: 0n },
      ],
      [{ stream: shared, events: [thing(63)], expectedRevision: 1n }],
      [{ stream: things(0), events: [thing(64)], expectedRevision: 20n }],
    ];
    await Promise.all(appends.map((writes) => log.append(writes)));
    expect((await readThings(log)).slice(60)).toEqual([60, 61, 62, 63, 64]);
  });

  it('lets others pass meanwhile', async () => {
    const log = await openTestLog(await closedLog(onThread), onThread);
    const found = log.append([{ stream: things(0), events: [thing(61)], expectedRevision: 19n }]);
    const fresh = log.append([
      { stream: streamName('exchange', mintEventId()), events: [thing(60)], expectedRevision: 'noStream' },
    ]);
    await Promise.all([found, fresh]);
    expect((await readThings(log)).slice(60)).toEqual([60, 61]);
  });

  it('records its events at the moment of the call', async () => {
    const log = await openTestLog(await closedLog(onThread), onThread);
    const data = { n: 60 };
    const appended = log.append([{ stream: things(0), events: [{ ...thing(0), data }], expectedRevision: 19n }]);
    data.n = -1;
    await appended;
    expect((await readThings(log)).at(-1)).toBe(60);
  });

  it('is refused when the log is closed before that', async () => {
    const log = await openTestLog(await closedLog(onThread), onThread);
    const appended = log.append([{ stream: things(0), events: [thing(60)], expectedRevision: 19n }]);
    const refused = expect(appended).rejects.toMatchObject({ code: 'log_unavailable', outcome: 'none' });
    await log.close();
    await refused;
  });

  it('is refused when the segment of the stream is damaged', async () => {
    const dir = await closedLog({ ...onThread, seal: false });
    emptyAndLockIndex(dir);
    const [damaged = ''] = filesOf(dir, '.seg');
    const bytes = readFileSync(damaged);
    bytes[70] = (bytes[70] ?? 0) ^ 0xff;
    writeFileSync(damaged, bytes);
    const log = await openTestLog(dir, { ...onThread, seal: false });
    const unknown = log.append([{ stream: streamName('thing', 'x'), events: [thing(0)], expectedRevision: 'any' }]);
    await expect(unknown).rejects.toMatchObject({ code: 'log_unavailable', cause: { code: 'log_corrupted' } });
    const { revisions } = await log.append([{ stream: things(0), events: [thing(60)], expectedRevision: 19n }]);
    expect(revisions).toEqual([20n]);
  });
});

describe('mintedAfter', () => {
  it('is true of names that end in a later id, with or without dashes, and of no others', () => {
    const before = mintEventId();
    const id = mintEventId();
    const after = mintEventId();
    const plain = (text: string) => text.replaceAll('-', '');
    expect(mintedAfter(streamName('exchange', after), id)).toBe(true);
    expect(mintedAfter(streamName('response', `resp_${plain(after)}`), id)).toBe(true);
    for (const name of [before, id, `resp_${plain(before)}`, `a${after}`, `${after}_1`, 'x', 'f'.repeat(64), '/a/b']) {
      expect([name, mintedAfter(streamName('thing', name), id)]).toEqual([name, false]);
    }
  });
});
