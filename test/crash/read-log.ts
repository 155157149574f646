import { join } from 'node:path';
import { openLog } from '../../src/events/open-log.ts';
import { endsOf } from './check-exchanges.ts';
import { RecordedLog } from './recorded-log.ts';

/**
 * Adds what is new, read from the files as any other process may read them, also while a gateway writes.
 * @throws when anything in them is damaged
 */
export async function readOn(log: RecordedLog, dataDir: string, upTo = Number.POSITIVE_INFINITY): Promise<void> {
  const reader = await openLog(logUrl(dataDir), { readOnly: true });
  try {
    for await (const event of reader.readAll({ after: log.position })) {
      if (log.events >= upTo) break;
      log.add(event);
    }
  } finally {
    await reader.close();
  }
}

/**
 * As `readOn`, but waits until `gateway.started` of this process id is in the log: all that it did to put the
 * log in order comes before that. What a gateway has just written, another process may see a little later.
 */
export async function readUntilStarted(
  log: RecordedLog,
  dataDir: string,
  pid: number,
  timeoutMs: number,
): Promise<void> {
  const reader = await openLog(logUrl(dataDir), { readOnly: true });
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    for await (const event of reader.subscribe({ after: log.position, signal })) {
      if ('revision' in event) log.add(event);
      else if (log.startedPids.has(pid)) return;
    }
    throw new Error(`gateway.started of process ${pid} did not appear in the log within ${timeoutMs} ms`);
  } finally {
    await reader.close();
  }
}

/** As `readOn`, but waits until every exchange has ended, or until the time is up: some were only taken up again. */
export function readUntilAllEnded(log: RecordedLog, dataDir: string, timeoutMs: number): Promise<void> {
  return readUntil(log, dataDir, () => [...log.exchanges.values()].every((one) => endsOf(one).length > 0), timeoutMs);
}

/** As `readOn`, but waits until `isDone` returns true, or until the time is up. */
export async function readUntil(
  log: RecordedLog,
  dataDir: string,
  isDone: () => boolean,
  timeoutMs: number,
): Promise<void> {
  const reader = await openLog(logUrl(dataDir), { readOnly: true });
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    for await (const event of reader.subscribe({ after: log.position, signal })) {
      if ('revision' in event) log.add(event);
      else if (isDone()) return;
    }
  } finally {
    await reader.close();
  }
}

/** The log once more, from its beginning. @param events how many at most; default: all */
export async function readAgain(dataDir: string, events = Number.POSITIVE_INFINITY): Promise<RecordedLog> {
  const log = new RecordedLog();
  await readOn(log, dataDir, events);
  return log;
}

function logUrl(dataDir: string): string {
  return `file:${join(dataDir, 'log')}`;
}
