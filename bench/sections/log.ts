/**
 * Measures the embedded log on this machine's disk: durable appends per second with closed-loop writers, reading, and
 * opening. `node bench/sections/log.ts [seconds]`; the directory is `BENCH_DIR`, or one below the system's temporary directory.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { type EventContext, type NewEvent, streamName } from '../../src/events/event.ts';
import { mintEventId } from '../../src/events/event-id.ts';

export interface WriteResult {
  readonly writers: number;
  readonly eventsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface LogBench {
  /** Bytes of one event in the log, without its share of a frame's header. */
  readonly eventBytes: number;
  readonly writes: readonly WriteResult[];
  readonly readEventsPerSecond: number;
  readonly filteredEventsPerSecond: number;
  /** Uncompressed size of the log that was opened. */
  readonly openedBytes: number;
  /** Until it is open and a first event of a new stream is durable. */
  readonly openMs: number;
}

export interface LogBenchOptions {
  /** Duration of each measurement of writing. Default 3. */
  readonly seconds?: number;
  readonly writers?: readonly number[];
  readonly dir?: string;
}

/** Body size that makes the whole record 466 bytes. */
const recordBytes = 466;

function chunkEvent(context: EventContext, index: number, body: Uint8Array): NewEvent {
  return { type: 'chunk.received', schema: 1, data: { attempt: 1, index }, context, body };
}

async function write(log: EmbeddedLog, writers: number, seconds: number): Promise<WriteResult> {
  const latencies: number[] = [];
  const until = performance.now() + seconds * 1000;
  let events = 0;
  const writer = async () => {
    const id = mintEventId();
    const stream = streamName('exchange', id);
    const context: EventContext = { actor: 'key:0193f2a0', userPath: undefined, requestId: id, correlationId: id };
    const body = new Uint8Array(recordBytes - 40 - 36 - 14 - 45 - 121 - 25).fill(65);
    let revision = -1n;
    for (let index = 0; performance.now() < until; index++) {
      const began = performance.now();
      const appended = await log.append([
        { stream, events: [chunkEvent(context, index, body)], expectedRevision: index === 0 ? 'noStream' : revision },
      ]);
      latencies.push(performance.now() - began);
      revision = appended.revisions[0] ?? revision;
      events++;
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: writers }, writer));
  const elapsed = performance.now() - began;
  latencies.sort((a, b) => a - b);
  const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? 0;
  return { writers, eventsPerSecond: (events * 1000) / elapsed, p50Ms: at(0.5), p99Ms: at(0.99) };
}

async function read(log: EmbeddedLog, types?: string[]): Promise<{ perSecond: number; events: number }> {
  const total = Number(await log.head());
  const began = performance.now();
  let events = 0;
  for await (const event of log.readAll({ filter: types === undefined ? undefined : { types } })) {
    if (event.position !== '') events++;
  }
  return { perSecond: (total * 1000) / (performance.now() - began), events };
}

export async function benchLog(options: LogBenchOptions = {}): Promise<LogBench> {
  const { seconds = 3, writers = [1, 16, 256] } = options;
  const parent = options.dir ?? process.env['BENCH_DIR'] ?? tmpdir();
  const dir = await mkdtemp(path.join(parent, 'chancery-bench-log-'));
  try {
    let log = await EmbeddedLog.open(dir);
    const writes: WriteResult[] = [];
    for (const count of writers) writes.push(await write(log, count, seconds));
    await log.settled();
    const reading = await read(log);
    const filtered = await read(log, ['key.']);
    await log.close();
    const began = performance.now();
    log = await EmbeddedLog.open(dir);
    await write(log, 1, 0.001);
    const openMs = performance.now() - began;
    await log.close();
    return {
      eventBytes: recordBytes,
      writes,
      readEventsPerSecond: reading.perSecond,
      filteredEventsPerSecond: filtered.perSecond,
      openedBytes: reading.events * recordBytes,
      openMs,
    };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

function print(result: LogBench): void {
  const number = (value: number) => Math.round(value).toLocaleString('en');
  for (const { writers, eventsPerSecond, p50Ms, p99Ms } of result.writes) {
    console.log(
      `write  ${String(writers).padStart(3)} writers  ${number(eventsPerSecond).padStart(9)} durable events/s` +
        `  p50 ${p50Ms.toFixed(2)} ms  p99 ${p99Ms.toFixed(2)} ms  (${result.eventBytes} bytes each)`,
    );
  }
  console.log(`read   everything   ${number(result.readEventsPerSecond).padStart(9)} events/s`);
  console.log(`read   none wanted  ${number(result.filteredEventsPerSecond).padStart(9)} events/s`);
  console.log(`memory at most     ${number((process.resourceUsage().maxRSS * 1024) / 1e6)} MB`);
  console.log(`open   ${number(result.openedBytes / 1e6)} MB in ${number(result.openMs)} ms`);
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { seconds: { type: 'string', default: '3' } } });
  print(await benchLog({ seconds: Number(values.seconds) }));
}
