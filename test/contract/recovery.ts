/** Waiting for what a log says of itself, without a clock. */
import type { RecordedEvent } from '../../src/events/event.ts';
import {
  type Appended,
  type EventLog,
  type LogStatus,
  LogUnavailable,
  type StreamWrite,
} from '../../src/events/log.ts';

/** Resolves when the log has the position. */
export async function hasPosition(log: EventLog, position: string): Promise<void> {
  if ((await log.head()) >= position) return;
  for await (const item of log.subscribe({ after: await log.head() })) if (item.position >= position) return;
  throw new Error(`the log ended before ${position}`);
}

export function whenState(log: EventLog, state: LogStatus['state']): Promise<void> {
  return new Promise((resolve) => {
    const stop = log.onStatusChange((status) => {
      if (status.state !== state) return;
      stop();
      resolve();
    });
    if (log.status().state !== state) return;
    stop();
    resolve();
  });
}

/** Appends with the same ids until the log accepts it, as a client that was answered 503 does. */
export async function appendUntilAccepted(log: EventLog, writes: readonly StreamWrite[]): Promise<Appended> {
  for (;;) {
    try {
      return await log.append(writes);
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error;
      await new Promise((resolve) => setImmediate(resolve));
      await whenState(log, 'ok');
    }
  }
}

/** Everything of a log that must be equal on every replica, one line for each event. */
export async function linesOf(log: EventLog): Promise<string[]> {
  const lines: string[] = [];
  for await (const event of log.readAll()) lines.push(lineOf(event));
  return lines;
}

function lineOf(event: RecordedEvent): string {
  const { body, revision, ...rest } = event;
  return JSON.stringify({ ...rest, revision: Number(revision), body: body && Buffer.from(body).toString('base64') });
}
