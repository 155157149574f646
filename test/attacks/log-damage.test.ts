/**
 * Random single-bit flips and cuts in any file of a log with at least ten segments, compressed or not. Each ends in a log
 * that opens whole, or in a refusal that names the place and a command, which then loses no more than the batch or the
 * compressed block that was hit. Damage to the stream index loses nothing and is in no answer.
 *
 * `CHANCERY_DAMAGE_ROUNDS=500` for more rounds; `CHANCERY_TEST_SEED` repeats them. A failed round prints its damage.
 */
import { cpSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { expect, it } from 'vitest';
import { checkLog } from '../../src/events/embedded/check-log.ts';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { readFrame } from '../../src/events/embedded/frame.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { type RecordedEvent, type StreamName, streamName } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { collect } from '../contract/event-log.ts';
import { createChance, type Random } from '../crash/random.ts';
import { temporaryDirectory, thing } from '../events/log-files.ts';
import { countOf, seed } from '../support/seed.ts';

const rounds = countOf(6, 500, 'CHANCERY_DAMAGE_ROUNDS');

interface Range {
  readonly first: number;
  readonly last: number;
}

/** A part of a file that is read as a whole, and the positions in it. */
interface Unit extends Range {
  readonly from: number;
  readonly to: number;
}

interface Pristine {
  readonly dir: string;
  readonly options: EmbeddedLogOptions;
  readonly events: readonly RecordedEvent[];
  readonly files: readonly string[];
  readonly units: ReadonlyMap<string, readonly Unit[]>;
}

async function makeLog(chance: Random, options: EmbeddedLogOptions): Promise<Pristine> {
  const dir = temporaryDirectory('memory');
  const log = await EmbeddedLog.open(dir, options);
  const names = () => new Set(readdirSync(dir).flatMap((file) => /^\d{16}/.exec(file)?.[0] ?? []));
  for (let n = 0; names().size < 12; n++) {
    const body = Buffer.from(Array.from({ length: chance.between(500, 6_000) }, () => chance.between(0, 99)));
    const stream = streamName('thing', String(chance.between(0, 30)));
    const events = Array.from({ length: chance.between(1, 3) }, (_, at) => thing(n * 3 + at, body));
    await log.append([{ stream, events, expectedRevision: 'any' }]);
  }
  await log.settled();
  const events = await collect(log.readAll());
  await log.close();
  const mark = Number.parseInt(JSON.parse(readFileSync(path.join(dir, 'log.json'), 'utf8')).mark, 16);
  const files = readdirSync(dir).filter((file) => statSync(path.join(dir, file)).size > 0 && !/^writer\./.test(file));
  const units = new Map(files.map((file) => [file, unitsOf(dir, file, mark)]));
  return { dir, options, events, files, units };
}

function unitsOf(dir: string, file: string, mark: number): Unit[] {
  if (file.endsWith('.seg')) {
    const units: Unit[] = [];
    const bytes = readFileSync(path.join(dir, file));
    for (let from = 0; ; ) {
      const frame = readFrame(bytes, from, bytes.length, mark);
      if (typeof frame === 'string') return units;
      units.push({ from, to: frame.end, first: frame.first, last: frame.last });
      from = frame.end;
    }
  }
  if (!file.endsWith('.zst')) return [];
  const { blocks, last, compressedBytes }: Table = JSON.parse(
    readFileSync(path.join(dir, file.replace('.zst', '.json')), 'utf8'),
  );
  return blocks.map(({ at, position }, index) => {
    const next = blocks[index + 1];
    return { from: at, to: next?.at ?? compressedBytes, first: position, last: (next?.position ?? last + 1) - 1 };
  });
}

interface Table {
  readonly blocks: readonly { readonly at: number; readonly position: number }[];
  readonly last: number;
  readonly compressedBytes: number;
}

/** @returns what may be lost */
function damage(dir: string, { files, units }: Pristine, chance: Random): { readonly what: string; may: Range[] } {
  const name = chance.happens(0.4) ? 'index.db' : (files[chance.between(0, files.length - 1)] ?? '');
  const file = path.join(dir, name);
  const bytes = readFileSync(file);
  // SQLite's own header decides how everything else is read.
  const at = chance.between(0, (name === 'index.db' && chance.happens(0.15) ? 100 : bytes.length) - 1);
  if (chance.happens(0.3)) {
    truncateSync(file, at);
    return { what: `${name} cut at byte ${at}`, may: units.get(name)?.filter(({ to }) => to > at) ?? [] };
  }
  const bit = chance.between(0, 7);
  bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
  writeFileSync(file, bytes);
  const hit = units.get(name)?.filter(({ from, to }) => from <= at && at < to) ?? [];
  return { what: `bit ${bit} of byte ${at} of ${name}`, may: hit };
}

/** An event as a short text: comparing thousands of bodies takes most of a round. */
function lineOf({ position, id, stream, revision, data, body = Buffer.alloc(0) }: RecordedEvent): string {
  return [position, id, stream, revision, JSON.stringify(data), crc32(body)].join(' ');
}

/** Every event, and every stream, as they can be read. */
async function contentOf(log: Pick<EventLog, 'readAll' | 'readStream'>, streams: ReadonlySet<StreamName>) {
  const events = (await collect(log.readAll({ filter: { types: ['thing.noted'] } }))).map(lineOf);
  const ofStreams: string[][] = [];
  for (const stream of streams) ofStreams.push((await collect(log.readStream(stream))).map(lineOf));
  return { events, ofStreams };
}

function expected(events: readonly RecordedEvent[], lost: readonly Range[]) {
  const left = events.filter(
    ({ position }) => !lost.some(({ first, last }) => first <= Number(position) && Number(position) <= last),
  );
  const streams = [...new Set(events.map(({ stream }) => stream))];
  const byStream = Map.groupBy(left, ({ stream }) => stream);
  return {
    events: left.map(lineOf),
    ofStreams: streams.map((stream) => (byStream.get(stream) ?? []).map(lineOf)),
  };
}

async function withLog<Result>(dir: string, options: EmbeddedLogOptions, use: (log: EmbeddedLog) => Promise<Result>) {
  const log = await EmbeddedLog.open(dir, options);
  try {
    return await use(log);
  } finally {
    await log.close();
  }
}

/** Appends to every stream, to one that is between the others and to one behind them, as the first thing after opening. */
async function appendToEach(dir: string, { events, options }: Pristine, what: string): Promise<void> {
  const next = new Map<StreamName, bigint>(
    [streamName('thing', '1x'), streamName('thing', 'z')].map((one) => [one, 0n]),
  );
  for (const { stream, revision } of events) next.set(stream, revision + 1n);
  await withLog(dir, options, async (log) => {
    const appended = [...next].map(([stream, revision]) =>
      log.append([{ stream, events: [thing(0)], expectedRevision: revision === 0n ? 'noStream' : revision - 1n }]),
    );
    expect(
      (await Promise.allSettled(appended)).filter(({ status }) => status === 'rejected'),
      what,
    ).toEqual([]);
  });
}

/** @returns how many positions were lost */
async function round(log: Pristine, chance: Random): Promise<number> {
  const dir = path.join(temporaryDirectory('memory'), 'log');
  let what = '';
  try {
    cpSync(log.dir, dir, { recursive: true });
    const damaged = damage(dir, log, chance);
    what = damaged.what;
    const { may } = damaged;
    const streams = new Set(log.events.map(({ stream }) => stream));
    const read = (opened: EmbeddedLog) => contentOf(opened, streams);
    if (what.includes('index.db')) {
      const appended = path.join(path.dirname(dir), 'appended');
      cpSync(dir, appended, { recursive: true });
      await appendToEach(appended, log, what);
      const outside = await ReadOnlyLog.open(dir);
      expect(await contentOf(outside, streams), `${what}, from another process`).toEqual(expected(log.events, []));
      await outside.close();
    }
    const refusal = await withLog(dir, log.options, async (opened) => {
      expect(await read(opened), what).toEqual(expected(log.events, []));
      await opened.settled();
      expect(opened.status(), what).toMatchObject({ unindexedSegments: 0 });
      expect(opened.status().degraded, what).toBeUndefined();
    }).then(
      () => undefined,
      (error: unknown) => error,
    );
    if (refusal === undefined) return 0;
    if (!(refusal instanceof Error && 'code' in refusal && String(refusal.code).startsWith('log_'))) throw refusal;
    expect(refusal.message, what).toMatch(/(segment \d{16} at byte \d+|\d{16}|durable|log\.json).*log accept-loss/);
    const listed = (await EmbeddedLog.findLoss(dir)).flatMap(({ positions }) => positions ?? []);
    const acceptLoss = { by: 'olga', reason: what, at: new Date() };
    const lost = await withLog(dir, { ...log.options, acceptLoss }, async (opened) => {
      const positions = opened.acceptedLoss?.positions ?? [];
      expect(await read(opened), what).toEqual(expected(log.events, positions));
      await opened.settled();
      return positions;
    });
    expect(listed, what).toEqual(lost);
    for (const { first, last } of lost) {
      for (let position = first; position <= last; position++) {
        expect(
          may.some((unit) => unit.first <= position && position <= unit.last),
          `${what}: ${position}`,
        ).toBe(true);
      }
    }
    expect(await withLog(dir, log.options, read), what).toEqual(expected(log.events, lost));
    expect((await checkLog(dir)).problem, what).toBeUndefined();
    return lost.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  } catch (error) {
    throw new Error(`${what}: ${error instanceof Error ? error.stack?.slice(0, 800) : String(error)}`, {
      cause: error,
    });
  } finally {
    rmSync(path.dirname(dir), { recursive: true, force: true });
  }
}

it(
  `opens whole, or with the smallest loss, after random damage (${rounds} rounds, seed ${seed})`,
  async () => {
    const chance = createChance(seed);
    const pristine = [
      await makeLog(chance, { segmentBytes: 400_000, disk: nodeDisk }),
      await makeLog(chance, { segmentBytes: 100_000, seal: false, disk: nodeDisk }),
    ];
    const failures: string[] = [];
    let refused = 0;
    for (let at = 0; at < rounds; at++) {
      const log = pristine[at % pristine.length];
      if (log === undefined) throw new Error('there is no log');
      try {
        if ((await round(log, chance.fork())) > 0) refused++;
      } catch (error) {
        failures.push(`round ${at}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
    console.info(`seed ${seed}: ${rounds} rounds, ${refused} of them lost events, ${failures.length} failed`);
    expect(failures).toEqual([]);
  },
  20_000 + rounds * 5_000,
);
