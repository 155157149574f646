/** Logs that are backed up, and damage to their backups. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import { appendThings, filesOf, openTestLog, readAll, temporaryDirectory } from './log-files.ts';

export const small = { segmentBytes: 2_000 };

/** A log with compressed segments, and one that is not. */
export async function logOf(count: number, options: EmbeddedLogOptions = small) {
  const dir = temporaryDirectory();
  const log = await openTestLog(dir, options);
  await appendThings(log, 0, count);
  await log.settled();
  return { dir, log, to: path.join(temporaryDirectory(), 'backup') };
}

export async function eventsIn(dir: string) {
  const log = await ReadOnlyLog.open(dir);
  const events = await readAll(log);
  await log.close();
  return events;
}

export function flip(file: string, at: number): void {
  const bytes = readFileSync(file);
  bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  writeFileSync(file, bytes);
}

/** A manifest that is valid and wrong. */
export function changeFact(file: string): void {
  const text = readFileSync(file, 'utf8');
  writeFileSync(
    file,
    text.replace(/(?<="firstAt":\d+)\d/, (digit) => (digit === '0' ? '1' : '0')),
  );
}

export const manifestsOf = (dir: string) => filesOf(dir, '.json').filter((file) => /\d{16}\.json$/.test(file));
