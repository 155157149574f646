/** What a snapshot was built from. One with another basis is not used, and the log is folded again. */
import { setTimeout as delay } from 'node:timers/promises';
import { rebuildsStream, skippedStream, viewEventSkipped, viewRebuildRequested } from '../events/catalogue/gateway.ts';
import { type EpochMs, type Position, positionBefore, type RecordedEvent, START } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA, isCaughtUp } from './projection.ts';
import { type BoundEvent, checksumOfEvent, type MovedSnapshot, type Snapshot, type ViewStore } from './view-store.ts';

/** The id of the log's first event, which identifies the log. Undefined while the log is empty. */
export async function logIdOf(log: EventLog): Promise<string | undefined> {
  for await (const event of log.readAll({ maxCount: 1 })) return event.id;
  return undefined;
}

export async function eventWithPosition(log: EventLog, position: Position): Promise<RecordedEvent | undefined> {
  for await (const event of log.readAll({ after: positionBefore(position), maxCount: 1 })) {
    return event.position === position ? event : undefined;
  }
  return undefined;
}

/** How often, and after how long each, it is looked whether an event is on disk. */
const DURABLE_LOOKS = 40;
const DURABLE_LOOK_MS = 25;

/**
 * Saves snapshots with the event to which they are bound, once the log has it on disk: a power cut may keep a snapshot and
 * lose the event, and a snapshot that is bound to none could be used with an older copy of the log that went on by itself.
 * @returns the milliseconds for which writing blocked the event loop; undefined when they were not saved, since the log has not
 * had the event on disk within a second
 * @throws what SQLite throws when the disk is full
 */
export async function saveBound(
  log: EventLog,
  views: ViewStore,
  snapshots: readonly (Snapshot | MovedSnapshot)[],
): Promise<number | undefined> {
  const position =
    snapshots
      .map((one) => one.position)
      .toSorted()
      .at(-1) ?? START;
  let bound: BoundEvent | undefined;
  if (position > (views.boundTo ?? START)) {
    for (let left = DURABLE_LOOKS; log.status().durableHead < position; left--) {
      if (left === 0) return undefined;
      // The timer keeps the process: nothing else may be under way at a start.
      await delay(DURABLE_LOOK_MS);
    }
    const [logId, event] = [await logIdOf(log), await eventWithPosition(log, position)];
    if (logId === undefined || event === undefined) return undefined;
    // Others may have bound later ones meanwhile.
    if (position > (views.boundTo ?? START)) bound = { logId, position, id: event.id, crc32: checksumOfEvent(event) };
  }
  const began = performance.now();
  views.save(snapshots, bound);
  return performance.now() - began;
}

export interface RebuildRequest {
  readonly position: Position;
  readonly by: string;
  readonly at: EpochMs;
}

/** The newest request to rebuild each view, by its name. */
export async function rebuildRequests(log: EventLog): Promise<ReadonlyMap<string, RebuildRequest>> {
  const requests = new Map<string, RebuildRequest>();
  for await (const event of log.readStream(rebuildsStream)) {
    if (!isA(event, viewRebuildRequested)) continue;
    const { position, at, context } = event;
    requests.set(event.data.view, { position, by: context.actor, at });
  }
  return requests;
}

/** The `logId` of a snapshot that was folded from the beginning of the log after this request. */
export function snapshotBasis(logId: string, request: Pick<RebuildRequest, 'position'> | undefined): string {
  return request === undefined ? logId : `${logId} rebuilt ${request.position}`;
}

/** Events that a projection cannot apply, and those that an operator skipped. */
export interface Skipped {
  readonly view: string;
  readonly position: Position;
  readonly eventType: string;
  readonly reason: string;
  readonly by: string;
  readonly at: EpochMs;
}

/** All skipped events, oldest first. */
export async function skippedEvents(log: EventLog): Promise<readonly Skipped[]> {
  const skipped: Skipped[] = [];
  for await (const event of log.readStream(skippedStream)) {
    if (!isA(event, viewEventSkipped)) continue;
    const { view, position, eventType, reason, by } = event.data;
    skipped.push({ view, position: position as Position, eventType, reason, by, at: event.at });
  }
  return skipped;
}

export function skippedBy(view: string, skipped: readonly Skipped[]): ReadonlySet<Position> {
  return new Set(skipped.filter((one) => one.view === view).map(({ position }) => position));
}

/** Resolves when an operator has let the view continue without the event. @throws AbortError when the signal is aborted */
export async function whenSkipped(view: string, position: Position, log: EventLog, signal: AbortSignal): Promise<void> {
  const after = await log.head();
  if (skippedBy(view, await skippedEvents(log)).has(position)) return;
  for await (const event of log.subscribe({ after, filter: { streams: [skippedStream] }, signal })) {
    if (isCaughtUp(event) || !isA(event, viewEventSkipped)) continue;
    if (event.data.view === view && event.data.position === position) return;
  }
  signal.throwIfAborted();
}

/** An event on which a projection stops. The message names the event, and what an operator can do. */
export class UnprocessableEvent extends Error {
  readonly code = 'poisoned_event';
  readonly event: Pick<RecordedEvent, 'position' | 'type' | 'stream'>;
  constructor(view: string, { position, type, stream }: RecordedEvent, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      `event ${position} (${type} of ${stream}) cannot be processed: ${why}; ` +
        `"chancery views skip ${view} --position ${position} --reason …" continues without it`,
      { cause },
    );
    this.event = { position, type, stream };
  }
}
