/** The visible end of a stream: an append becomes visible shortly after it got its position. */
import type { RecordedEvent, StreamName } from './event.ts';
import type { EventLog } from './log.ts';

/** Longest wait for a change before the stream is read again: the log may have refused the change. */
const MAX_WAIT_MS = 500;

/** The stream's last event; undefined when there is no such stream. */
export async function newestEvent(
  stream: StreamName,
  log: Pick<EventLog, 'readStream'>,
): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { direction: 'backwards', maxCount: 1 })) return event;
  return undefined;
}

/**
 * Resolves once the stream's newest event is another one than `from`, or after half a second. A writer whose append
 * failed because of another writer's event waits here before it reads again.
 */
export async function whenNewerEvent(
  stream: StreamName,
  from: bigint | undefined,
  log: EventLog,
  ended?: AbortSignal,
): Promise<void> {
  const head = await log.head();
  if ((await newestEvent(stream, log))?.revision !== from) return;
  const timeout = AbortSignal.timeout(MAX_WAIT_MS);
  const signal = ended === undefined ? timeout : AbortSignal.any([ended, timeout]);
  for await (const item of log.subscribe({ after: head, filter: { streams: [stream] }, signal })) {
    if (item.type !== '$caughtUp') return;
  }
}
