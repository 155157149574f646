/**
 * Appends to a log whose stream index holds none, a million and ten million streams. The index is built directly; the
 * logs take turns in short rounds. `npm run bench -- index [--streams 0,100000] [--rounds 3] [--seconds 2]
 * [--writers 16]`; the folder is `BENCH_DIR`, or `bench/.work`.
 */
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import {
  type IndexedPlace,
  indexedPlaceOf,
  insertPlace,
  noteTables,
  rowOf,
} from '../../src/events/embedded/archive/index-file.ts';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';
import type { ExpectedRevision } from '../../src/events/log.ts';
import { median } from './median.ts';

/**
 * The stream of an append: `new`, a stream named after the time, as each request has; `random`, a new stream with a
 * random name; `old`, a stream that is in the index and was not used since.
 */
export const APPENDS = ['new', 'random', 'old'] as const;
type AppendKind = (typeof APPENDS)[number];

export interface IndexBenchOptions {
  readonly streams: readonly number[];
  readonly rounds: number;
  readonly seconds: number;
  readonly writers: number;
  readonly dir: string;
}

export interface IndexCell {
  readonly streams: number;
  readonly kind: AppendKind;
  /** Medians of the rounds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
}

export interface IndexBench {
  readonly cells: readonly IndexCell[];
  readonly indexBytes: ReadonlyMap<number, number>;
}

const segmentBytes = 64 * 1024 * 1024;
const context: EventContext = { actor: 'system' };

export async function benchStreamIndex(options: IndexBenchOptions, say: (line: string) => void): Promise<IndexBench> {
  const folder = mkdtempSync(path.join(options.dir, 'index-'));
  const logs = new Map<number, EmbeddedLog>();
  const indexBytes = new Map<number, number>();
  try {
    for (const streams of options.streams) {
      const dir = path.join(folder, String(streams));
      const began = performance.now();
      await buildLog(dir, streams);
      indexBytes.set(streams, statSync(path.join(dir, 'index.db')).size);
      logs.set(streams, await EmbeddedLog.open(dir, { segmentBytes }));
      say(`${count(streams)} streams: index built in ${((performance.now() - began) / 1000).toFixed(1)} s`);
    }
    return { cells: await measure(logs, options), indexBytes };
  } finally {
    for (const log of logs.values()) await log.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A log of two segments, with that many streams more in its index than it has. */
async function buildLog(dir: string, streams: number): Promise<void> {
  const log = await EmbeddedLog.open(dir, { segmentBytes: 1_000 });
  const body = Buffer.alloc(2_000);
  await log.append([{ stream: streamName('thing', 'a'), events: [event(body)], expectedRevision: 'noStream' }]);
  await log.settled();
  await log.close();
  const database = new DatabaseSync(path.join(dir, 'index.db'));
  database.exec('pragma journal_mode = delete; pragma synchronous = off; begin');
  const before = database.prepare('select * from places order by stream, segment').all().map(indexedPlaceOf);
  const insert = database.prepare(insertPlace);
  // in the order of the index, like random names that were sorted; the row in front of them has a new one behind it
  let last: IndexedPlace | undefined = before.findLast(({ stream }) => stream < 'old-');
  const behind = before.find(({ stream }) => stream > 'old-');
  for (let index = 0; index < streams; index++) {
    const place = { stream: oldName(index, streams), segment: 1, last: 0, frames: Buffer.from([0, 0]) };
    if (last !== undefined) insert.run(...rowOf(last, place));
    last = place;
  }
  if (last !== undefined) insert.run(...rowOf(last, behind));
  if (streams > 0) database.exec(`insert into categories values ('old', 'old-ffffffffffff-ffffffffffff')`);
  noteTables(database);
  database.exec('commit');
  database.close();
  // otherwise the system would write these pages during the appends
  const fd = openSync(path.join(dir, 'index.db'), 'r+');
  fsyncSync(fd);
  closeSync(fd);
}

/** Spreads the names evenly, as hashes are. */
function stepOf(streams: number): number {
  return Math.floor(2 ** 46 / Math.max(1, streams));
}

function oldName(index: number, streams: number): StreamName {
  const hex = (value: number) => value.toString(16).padStart(12, '0');
  return streamName('old', `${hex(index * stepOf(streams))}-${hex(index)}`);
}

function event(body: Uint8Array): NewEvent {
  return { type: 'chunk.received', schema: 1, data: { attempt: 1, index: 0 }, context, body };
}

async function measure(logs: ReadonlyMap<number, EmbeddedLog>, options: IndexBenchOptions): Promise<IndexCell[]> {
  const rounds = new Map<string, Round[]>();
  for (let round = 0; round < options.rounds; round++) {
    for (const kind of APPENDS) {
      for (const [streams, log] of logs) {
        const key = `${streams} ${kind}`;
        // the first one also starts threads and warms up the code
        if (round === 0) await append(log, kind, streams, { ...options, seconds: options.seconds / 4 });
        rounds.set(key, [...(rounds.get(key) ?? []), await append(log, kind, streams, options)]);
      }
    }
  }
  return [...logs.keys()].flatMap((streams) =>
    APPENDS.map((kind) => {
      const found = rounds.get(`${streams} ${kind}`) ?? [];
      const of = (figure: keyof Round) => median(found.map((each) => each[figure]));
      return { streams, kind, p50Ms: of('p50Ms'), p99Ms: of('p99Ms'), perSecond: of('perSecond') };
    }),
  );
}

interface Round {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly perSecond: number;
}

async function append(
  log: EmbeddedLog,
  kind: AppendKind,
  streams: number,
  { writers, seconds }: Pick<IndexBenchOptions, 'writers' | 'seconds'>,
): Promise<Round> {
  const body = Buffer.alloc(300, 65);
  const latencies: number[] = [];
  const began = performance.now();
  const until = began + seconds * 1000;
  const writer = async () => {
    while (performance.now() < until) {
      const [stream, expectedRevision] = target(kind, streams);
      const called = performance.now();
      await log.append([{ stream, events: [event(body)], expectedRevision }]);
      latencies.push(performance.now() - called);
    }
  };
  await Promise.all(Array.from({ length: writers }, writer));
  latencies.sort((a, b) => a - b);
  const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0;
  return { p50Ms: at(0.5), p99Ms: at(0.99), perSecond: (latencies.length * 1000) / (performance.now() - began) };
}

/** Without streams in the index, an old stream is any stream. */
function target(kind: AppendKind, streams: number): [StreamName, ExpectedRevision] {
  if (kind === 'new') return [streamName('exchange', mintEventId()), 'noStream'];
  const index = Math.floor(Math.random() * Math.max(1, streams));
  if (kind === 'old') return [oldName(index, streams), streams === 0 ? 'any' : 'exists'];
  return [streamName('old', Math.random().toString(16).slice(2).padEnd(12, '0')), 'any'];
}

const count = (value: number) => value.toLocaleString('en');

/** The command line of this part. */
export async function runStreamIndexBench(args: readonly string[], dir: string): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      streams: { type: 'string', default: '0,1000000,10000000' },
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '2' },
      writers: { type: 'string', default: '16' },
    },
  });
  const options: IndexBenchOptions = {
    streams: values.streams.split(',').map(Number),
    rounds: Number(values.rounds),
    seconds: Number(values.seconds),
    writers: Number(values.writers),
    dir: process.env['BENCH_DIR'] ?? dir,
  };
  const { cells, indexBytes } = await benchStreamIndex(options, (line) => console.log(line));
  for (const { streams, kind, p50Ms, p99Ms, perSecond } of cells) {
    const base = cells.find((cell) => cell.streams === Math.min(...options.streams) && cell.kind === kind);
    console.log(
      `${count(streams).padStart(10)} streams (${count(Math.round((indexBytes.get(streams) ?? 0) / 1e6))} MB)` +
        `  ${kind.padEnd(6)}  p50 ${p50Ms.toFixed(2)} ms  p99 ${p99Ms.toFixed(2)} ms` +
        `  (${(p99Ms / (base?.p99Ms ?? p99Ms)).toFixed(2)} x)  ${count(Math.round(perSecond))} appends/s`,
    );
  }
  console.log(`memory at most ${count(Math.round((process.resourceUsage().maxRSS * 1024) / 1e6))} MB`);
}
