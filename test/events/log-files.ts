/** Logs in temporary directories, for tests that look at what lies on disk. */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { type EventContext, type NewEvent, type RecordedEvent, streamName } from '../../src/events/event.ts';
import type { Appended, EventLog } from '../../src/events/log.ts';
import { collect } from '../contract/event-log.ts';

/** A disk whose syncs cost nothing, for tests that open a log a thousand times. */
const memoryDisk = '/dev/shm';

/** A directory that is removed after the test. */
export function temporaryDirectory(parent: 'disk' | 'memory' = 'disk'): string {
  const inMemory = parent === 'memory' && existsSync(memoryDisk);
  const dir = mkdtempSync(path.join(inMemory ? memoryDisk : tmpdir(), 'chancery-log-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  return dir;
}

/**
 * Opens the log, to be closed at the end of the test at the latest. Its files end where their frames end, unless
 * `layOutBytes` is given, and it starts no threads, which takes longer than most tests, unless `disk` is undefined.
 */
export async function openTestLog(dir: string, options?: EmbeddedLogOptions): Promise<EmbeddedLog> {
  const log = await EmbeddedLog.open(dir, { layOutBytes: 0, disk: nodeDisk, ...options });
  onTestFinished(() => log.close().catch(() => {}));
  return log;
}

const context: EventContext = { actor: 'system', requestId: 'r' };

export function thing(n: number, body?: Uint8Array): NewEvent {
  return { type: 'thing.noted', schema: 1, data: { n }, context, body };
}

/** Appends events that carry the numbers `from`, `from + 1`, …, one append after the other, over a few streams. */
export async function appendThings(log: EventLog, from: number, count: number, bodyBytes = 20): Promise<void> {
  for (let n = from; n < from + count; n++) await appendThing(log, n, Buffer.alloc(bodyBytes, n));
}

export function appendThing(log: EventLog, n: number, body?: Uint8Array): Promise<Appended> {
  return log.append([
    { stream: streamName('thing', String(n % 3)), events: [thing(n, body)], expectedRevision: 'any' },
  ]);
}

export async function readAll(log: EventLog): Promise<RecordedEvent[]> {
  return collect(log.readAll());
}

/** The numbers of `thing.noted` events. */
export async function readThings(log: EventLog): Promise<number[]> {
  const events = await collect(log.readAll({ filter: { types: ['thing.noted'] } }));
  return events.map(({ data }) => (data as { n: number }).n);
}

export function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, n) => n);
}

/** Full paths of the log's files with this ending, in order. */
export function filesOf(dir: string, ending: string): string[] {
  return readdirSync(dir)
    .filter((file) => file.endsWith(ending))
    .toSorted()
    .map((file) => path.join(dir, file));
}

export function fileOf(dir: string, ending: string): string {
  const file = filesOf(dir, ending).at(-1);
  if (file === undefined) throw new Error(`no ${ending} in ${readdirSync(dir)}`);
  return file;
}

/** Polls for a condition. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    // A time: between two looks at what has no listener.
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
