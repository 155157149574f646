import {
  copyFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { statLog } from '../../src/events/embedded/stat-log.ts';
import { Watermark } from '../../src/events/embedded/watermark.ts';
import { streamName } from '../../src/events/event.ts';
import { collect } from '../contract/event-log.ts';
import { faultyDisk } from './faulty-disk.ts';
import { appendThings, filesOf, openTestLog, readAll, readThings, temporaryDirectory, upTo } from './log-files.ts';

const acceptLoss = { by: 'olga', reason: 'the disk is gone', at: new Date(0) };
const small: EmbeddedLogOptions = { segmentBytes: 1_200, disk: nodeDisk };
const raw: EmbeddedLogOptions = { ...small, seal: false };

interface Lost {
  /** The change that makes the log incomplete. */
  readonly damage: (dir: string) => void;
  readonly options: EmbeddedLogOptions;
  /** Parts of the refusal: positions, and a part of the list of files. */
  readonly positions?: { readonly first: number; readonly last: number };
  readonly names: string;
  /** The number of events left. */
  readonly left: number;
  /** Whether everything can be read nevertheless: then no position is lost. */
  readonly kept?: boolean;
  /** The segment that a check finds damaged; else it finds positions missing. */
  readonly damaged?: string;
}

const events = 40;

function names(dir: string): string[] {
  const segments = readdirSync(dir).filter((file) => /^\d{16}\./.test(file));
  return [...new Set(segments.map((file) => file.slice(0, 16)))].toSorted();
}

function removeSegment(dir: string, at: number): void {
  const name = names(dir).at(at) ?? '';
  for (const kind of ['seg', 'zst', 'json']) rmSync(path.join(dir, `${name}.${kind}`), { force: true });
}

/** Cuts a file of the second segment. */
function resize(kind: 'zst' | 'json', bytes: number): (dir: string) => void {
  return (dir) => truncateSync(path.join(dir, `${names(dir).at(1)}.${kind}`), bytes);
}

function removeSegments(dir: string): void {
  for (const name of names(dir)) {
    for (const kind of ['seg', 'zst', 'json']) rmSync(path.join(dir, `${name}.${kind}`), { force: true });
  }
}

function and(...damages: ((dir: string) => void)[]): (dir: string) => void {
  return (dir) => {
    for (const damage of damages) damage(dir);
  };
}

function removeIndex(dir: string): void {
  for (const file of readdirSync(dir)) if (file.startsWith('index.db')) rmSync(path.join(dir, file));
}

/** A watermark from before: after a power cut it may be that old. */
function ageWatermark(dir: string): void {
  const watermark = Watermark.openForReading(nodeDisk, dir, Watermark.find(nodeDisk, dir)?.mark ?? 0, 'write');
  watermark?.reset(0);
  watermark?.close();
}

/** Six events to a segment. */
const firsts = [1, 7, 13, 19, 25, 31, 37];
const [, second = 0, third = 0] = firsts;
const lastFirst = 37;

async function logOf(options: EmbeddedLogOptions, count = events): Promise<string> {
  const dir = temporaryDirectory();
  const log = await EmbeddedLog.open(dir, options);
  await appendThings(log, 0, count);
  await log.settled();
  await log.close();
  expect(names(dir).map(Number)).toEqual(firsts);
  return dir;
}

describe('an incomplete log', () => {
  const name = (first: number) => String(first).padStart(16, '0');
  const removeNewest = (dir: string) => removeSegment(dir, -1);
  const newest = { positions: { first: lastFirst, last: events }, names: name(lastFirst), left: lastFirst - 1 };
  const all = { positions: { first: 1, last: events }, names: name(1), left: 0 };
  const middle = { positions: { first: second, last: third - 1 }, names: name(second), left: events - third + second };
  const damaged = { ...middle, options: small, damaged: name(second) };
  const nothing = { names: '', left: events };
  const whole = { left: events, kept: true };

  const cases: [string, Lost][] = [
    ['the newest segment', { ...newest, options: raw, damage: removeNewest }],
    ['the newest segment, after compressed ones', { ...newest, options: small, damage: removeNewest }],
    ['the newest segment and the index', { ...newest, options: small, damage: and(removeNewest, removeIndex) }],
    ['a compressed segment that is empty', { ...damaged, damage: resize('zst', 0) }],
    ['a compressed segment that was cut short', { ...damaged, damage: resize('zst', 40) }],
    ['the table of a compressed segment, which is empty', { ...damaged, ...whole, damage: resize('json', 0) }],
    [
      'the table of a compressed segment, which is damaged, and the index',
      { ...damaged, ...whole, damage: and(resize('json', 50), removeIndex) },
    ],
    ['every segment', { ...all, options: raw, damage: removeSegments }],
    ['every segment, compressed ones', { ...all, options: small, damage: removeSegments }],
    ['every segment and the index', { ...all, options: small, damage: and(removeSegments, removeIndex) }],
    ['a segment in the middle', { ...middle, options: raw, damage: (dir) => removeSegment(dir, 1) }],
    ['a compressed segment in the middle', { ...middle, options: small, damage: (dir) => removeSegment(dir, 1) }],
    [
      'a segment in the middle, with an old note of what is on disk',
      {
        ...middle,
        options: raw,
        damage: (dir) => {
          removeSegment(dir, 1);
          ageWatermark(dir);
        },
      },
    ],
    [
      'a compressed segment in the middle, and the index',
      {
        ...middle,
        options: small,
        damage: (dir) => {
          removeSegment(dir, 1);
          removeIndex(dir);
        },
      },
    ],
    [
      'the first segment',
      {
        positions: { first: 1, last: second - 1 },
        names: name(1),
        left: events - second + 1,
        options: small,
        damage: (dir) => removeSegment(dir, 0),
      },
    ],
    [
      'the table of a compressed segment',
      {
        ...middle,
        ...whole,
        names: `${name(second)}.json`,
        options: small,
        damage: (dir) => rmSync(filesOf(dir, '.json')[1] ?? ''),
      },
    ],
    [
      'the content of a compressed segment',
      {
        ...middle,
        names: `${name(second)}.zst`,
        options: small,
        damage: (dir) => rmSync(filesOf(dir, '.zst')[1] ?? ''),
      },
    ],
    [
      'the note of what is on disk',
      { ...nothing, names: 'durable', options: raw, damage: (dir) => rmSync(path.join(dir, 'durable')) },
    ],
    [
      'what the note of what is on disk said',
      { ...nothing, names: 'durable', options: raw, damage: (dir) => writeFileSync(path.join(dir, 'durable'), '') },
    ],
    [
      'the identity',
      { ...nothing, names: 'log.json', options: small, damage: (dir) => rmSync(path.join(dir, 'log.json')) },
    ],
    [
      'a whole identity',
      { ...nothing, names: 'log.json', options: raw, damage: (dir) => writeFileSync(path.join(dir, 'log.json'), '{') },
    ],
    [
      'everything but the identity',
      {
        left: 0,
        names: 'durable',
        options: small,
        damage: (dir) => {
          for (const file of readdirSync(dir)) if (file !== 'log.json') rmSync(path.join(dir, file));
        },
      },
    ],
    [
      'everything but the note of what is on disk',
      {
        ...all,
        names: 'log.json',
        options: small,
        damage: (dir) => {
          for (const file of readdirSync(dir)) if (file !== 'durable') rmSync(path.join(dir, file));
        },
      },
    ],
  ];

  it.each(cases)(
    '%s: is refused and named, changes nothing, and goes on once the loss is accepted',
    async (_, lost) => {
      const dir = await logOf(lost.options);
      lost.damage(dir);
      const files = snapshot(dir);
      const refusal = await EmbeddedLog.open(dir, lost.options).catch((error: unknown) => error);
      expect(refusal).toMatchObject({ code: 'log_incomplete', message: expect.stringContaining(lost.names) });
      if (lost.positions !== undefined)
        expect(refusal).toMatchObject({
          missing: expect.arrayContaining([expect.objectContaining({ positions: lost.positions })]),
        });
      expect(snapshot(dir)).toEqual(files);
      const { problem } = await checkLog(dir);
      expect(problem).toBeDefined();
      if (lost.positions !== undefined && existsSync(path.join(dir, 'log.json'))) {
        const missing = { position: lost.positions.first, reason: expect.stringContaining(lost.names) };
        expect(problem).toMatchObject(lost.damaged === undefined ? missing : { segment: lost.damaged });
      }

      const accepted = await openTestLog(dir, { ...lost.options, acceptLoss });
      const before = lost.left === 0 && lost.positions === undefined ? 0 : events;
      expect(await readThings(accepted)).toHaveLength(lost.left);
      await appendThings(accepted, events, 12);
      const all = await readAll(accepted);
      const received = all.find(({ type }) => type === 'log.loss_accepted');
      expect(received).toMatchObject({
        position: String(before + 1).padStart(16, '0'),
        data: {
          by: 'olga',
          reason: 'the disk is gone',
          acceptedAt: '1970-01-01T00:00:00.000Z',
          positions: lost.positions === undefined || lost.kept ? [] : [lost.positions],
        },
      });
      expect(new Set(all.map(({ position }) => position)).size).toBe(all.length);
      await accepted.settled();
      await accepted.close();

      // from now on it opens by itself, reads the same from outside, and is whole
      const again = await openTestLog(dir, lost.options);
      expect(again.acceptedLoss).toBeUndefined();
      expect(await readAll(again)).toEqual(all);
      for (const id of ['0', '1', '2']) {
        const stream = streamName('thing', id);
        const ofStream = all.filter((event) => event.stream === stream);
        expect(await collect(again.readStream(stream))).toEqual(ofStream);
      }
      const outside = await ReadOnlyLog.open(dir);
      expect(await readAll(outside)).toEqual(all);
      expect(await collect(outside.readStream(streamName('thing', '1')))).toEqual(
        all.filter(({ stream }) => stream === 'thing-1'),
      );
      await outside.close();
      expect(await checkLog(dir)).toMatchObject({ problem: undefined, events: all.length });
      expect((await statLog(dir)).events).toBe(all.length);
      await again.close();
    },
  );

  it.each([
    ['raw', raw],
    ['compressed', small],
  ])('goes on after the loss of a %s segment when the newest one is empty', async (_, options) => {
    const dir = await logOf(options, lastFirst - 1);
    removeSegment(dir, 1);
    const accepted = await openTestLog(dir, { ...options, acceptLoss });
    await appendThings(accepted, lastFirst, 2);
    const all = await readAll(accepted);
    expect(all.slice(-3).map(({ position, type }) => [Number(position), type])).toEqual([
      [lastFirst, 'log.loss_accepted'],
      [lastFirst + 1, 'thing.noted'],
      [lastFirst + 2, 'thing.noted'],
    ]);
    await accepted.close();
    expect(await readAll(await openTestLog(dir, options))).toEqual(all);
    expect((await checkLog(dir)).problem).toBeUndefined();
  });

  it('is not reported for a watermark that is older than the log', async () => {
    const dir = await logOf(raw);
    ageWatermark(dir);
    expect(await readThings(await openTestLog(dir, raw))).toEqual(upTo(events));
  });

  it('continues without loss when the files are put back', async () => {
    const dir = await logOf(raw);
    const backup = temporaryDirectory();
    cpSync(dir, backup, { recursive: true });
    removeSegments(dir);
    await expect(openTestLog(dir, raw)).rejects.toMatchObject({ code: 'log_incomplete' });
    for (const file of readdirSync(backup)) copyFileSync(path.join(backup, file), path.join(dir, file));
    expect(await readThings(await openTestLog(dir, raw))).toEqual(upTo(events));
  });

  it('names every missing part at once', async () => {
    const dir = await logOf(raw);
    removeSegment(dir, 1);
    removeNewest(dir);
    rmSync(path.join(dir, 'log.json'));
    const refusal = await EmbeddedLog.open(dir, raw).catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      missing: [{ files: ['log.json'] }, { positions: middle.positions }, { positions: newest.positions }],
    });
  });

  it('is not opened when segments come back whose loss was accepted', async () => {
    const dir = await logOf(raw);
    const backup = temporaryDirectory();
    cpSync(dir, backup, { recursive: true });
    removeSegment(dir, 1);
    await (await openTestLog(dir, { ...raw, acceptLoss })).close();
    copyFileSync(path.join(backup, `${name(second)}.seg`), path.join(dir, `${name(second)}.seg`));
    await expect(openTestLog(dir, raw)).rejects.toMatchObject({
      code: 'log_corrupted',
      reason: expect.stringContaining('accepted as lost'),
    });
  });

  it('survives a crash at any step of the acceptance: it then opens by itself or is refused as before, with the same positions lost', async () => {
    const dir = await logOf(raw);
    removeNewest(dir);
    const copies: string[] = [];
    const disk = faultyDisk();
    disk.beforeChange = () => {
      const copy = temporaryDirectory('memory');
      cpSync(dir, copy, { recursive: true });
      copies.push(copy);
    };
    const accepted = await openTestLog(dir, { ...raw, disk, acceptLoss });
    disk.beforeChange = () => {};
    await accepted.close();
    expect(copies.length).toBeGreaterThan(5);
    for (const copy of copies) {
      for (const file of ['writer.lock', 'writer.json']) rmSync(path.join(copy, file), { force: true });
      const opened = await EmbeddedLog.open(copy, raw).catch((error: unknown) => {
        expect(error).toMatchObject({ missing: [{ positions: newest.positions }] });
        return EmbeddedLog.open(copy, { ...raw, acceptLoss });
      });
      const all = await readAll(opened);
      expect(all.slice(0, newest.left).map(({ data }) => data)).toEqual(upTo(newest.left).map((n) => ({ n })));
      expect(all[newest.left]).toMatchObject({ type: 'log.loss_accepted', position: name(events + 1) });
      await opened.close();
      expect((await checkLog(copy)).problem).toBeUndefined();
    }
  });

  it('is not mistaken for one whose creation was interrupted, at any step of it', async () => {
    const dir = path.join(temporaryDirectory(), 'log');
    const copies: string[] = [];
    const disk = faultyDisk();
    disk.beforeChange = () => {
      const copy = temporaryDirectory('memory');
      cpSync(dir, copy, { recursive: true });
      copies.push(copy);
    };
    await (await openTestLog(dir, { disk })).close();
    expect(copies.length).toBeGreaterThan(4);
    for (const copy of copies) {
      for (const file of ['writer.lock', 'writer.json']) rmSync(path.join(copy, file), { force: true });
      const log = await openTestLog(copy);
      await appendThings(log, 0, 1);
      expect(await readThings(log)).toEqual([0]);
      await log.close();
    }
  });
});

function snapshot(dir: string): [string, Buffer][] {
  return readdirSync(dir)
    .filter((file) => /^\d{16}\.|^durable$|^log\.json$|^losses\.json$/.test(file))
    .toSorted()
    .map((file) => [file, readFileSync(path.join(dir, file))]);
}
