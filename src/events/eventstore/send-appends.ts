/**
 * Writes the events of one call: many `appendToStream` at a time, because the reader puts them in order. Only when all
 * have succeeded is the call successful; otherwise the caller repeats it as a new call.
 */
import { ANY, binaryEvent } from '@eventstore/db-client';
import { EngineUnavailable } from '../replicated/engine.ts';
import { maxGapBytes } from './assemble-calls.ts';
import type { StreamAppend } from './event-layout.ts';
import type { EventStoreConnection } from './eventstore-connection.ts';
import { deniedReason, isAccessDenied, messageOf, wasNotSent } from './eventstore-errors.ts';

const maxInFlight = { writes: 64, bytes: 2 * 1024 * 1024 };
/** Beyond the deadline that the server has. */
const graceMs = 2_000;

/**
 * After a failure the connection is closed before anything else can arrive on it: the client fails all pending appends
 * of the process together, and throws in an event handler when one of them is answered later.
 * @throws EngineUnavailable
 */
export async function sendAppends(
  connection: EventStoreConnection,
  writes: readonly StreamAppend[],
  deadlineMs: number,
): Promise<void> {
  const positions: (bigint | undefined)[] = [];
  const failures: unknown[] = [];
  const inFlight = new Set<Promise<void>>();
  let bytes = 0;
  const send = (write: StreamAppend) => {
    const size = write.events.reduce((sum, { data, metadata }) => sum + data.length + metadata.length, 0);
    bytes += size;
    const settled = () => {
      bytes -= size;
      inFlight.delete(sent);
    };
    const sent: Promise<void> = appendOne(connection, write, deadlineMs)
      .then(
        (position) => void positions.push(position),
        (error: unknown) => void failures.push(error),
      )
      .then(settled);
    inFlight.add(sent);
  };
  for (const write of writes) {
    if (failures.length > 0) break;
    send(write);
    while (failures.length === 0 && (inFlight.size >= maxInFlight.writes || bytes >= maxInFlight.bytes)) {
      await Promise.race(inFlight);
    }
  }
  while (inFlight.size > 0 && failures.length === 0) await Promise.race(inFlight);
  if (failures.length === 0) return checkGaps(positions);
  await Promise.all([connection.close(), ...inFlight]);
  throw failureOf(failures, positions.length > 0);
}

async function appendOne({ client }: EventStoreConnection, { stream, events }: StreamAppend, deadlineMs: number) {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`no answer within ${deadlineMs + graceMs} ms`)),
    deadlineMs + graceMs,
  );
  try {
    const written = client.appendToStream(stream, events.map(binaryEvent), { expectedRevision: ANY });
    return (await Promise.race([written, late])).position?.commit;
  } finally {
    clearTimeout(timer);
  }
}

function failureOf(failures: readonly unknown[], someSucceeded: boolean): EngineUnavailable {
  const [first] = failures;
  const isNone = !someSucceeded && failures.every((error) => wasNotSent(error) || isAccessDenied(error));
  const reason = isAccessDenied(first) ? deniedReason('appending') : `EventStoreDB did not append: ${messageOf(first)}`;
  return new EngineUnavailable(reason, isNone ? 'none' : 'unknown');
}

/** The reader would abandon a call whose events lie too far from each other. */
function checkGaps(written: readonly (bigint | undefined)[]): void {
  const positions = written.flatMap((position) => position ?? []).sort((one, other) => (one < other ? -1 : 1));
  let before = positions[0] ?? 0n;
  for (const position of positions) {
    if (position - before > maxGapBytes) {
      throw new EngineUnavailable('EventStoreDB wrote the events of one call too far from each other', 'unknown');
    }
    before = position;
  }
}
