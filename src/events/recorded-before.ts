/** Recognises from the recorded events an append that is repeated long after the first time. */
import type { RecordedEvent } from './event.ts';
import { type Appended, type EventLog, type StreamWrite, WrongExpectedRevision } from './log.ts';

/**
 * The result of the first append of these events, when exactly these events are recorded at the revisions of the
 * writes, each of which must expect `noStream` or a number.
 * @param error the error of the repeated append
 * @throws error when they are not recorded there
 */
export async function recordedBefore(
  log: Pick<EventLog, 'readStream'>,
  writes: readonly StreamWrite[],
  error: unknown,
): Promise<Appended> {
  if (!(error instanceof WrongExpectedRevision)) throw error;
  const revisions: bigint[] = [];
  let last: RecordedEvent | undefined;
  for (const write of writes) {
    const first = firstRevision(write);
    if (first === undefined) throw error;
    const events = await eventsFrom(log, write, first);
    if (!write.events.every(({ id }, index) => id !== undefined && id === events[index]?.id)) throw error;
    last = events.at(-1) ?? last;
    revisions.push(first + BigInt(write.events.length) - 1n);
  }
  if (last === undefined) throw error;
  return { position: last.position, revisions };
}

function firstRevision({ expectedRevision }: StreamWrite): bigint | undefined {
  if (expectedRevision === 'noStream') return 0n;
  return typeof expectedRevision === 'bigint' ? expectedRevision + 1n : undefined;
}

async function eventsFrom(
  log: Pick<EventLog, 'readStream'>,
  { stream, events }: StreamWrite,
  fromRevision: bigint,
): Promise<RecordedEvent[]> {
  const found: RecordedEvent[] = [];
  for await (const event of log.readStream(stream, { fromRevision, maxCount: events.length })) found.push(event);
  return found;
}
