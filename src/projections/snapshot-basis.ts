/** What a snapshot was built from. One with another basis is not used, and the log is folded again. */
import { rebuildsStream, viewRebuildRequested } from '../events/catalogue/view.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { positionBefore } from '../events/sequence-position.ts';
import { isA } from './known-event.ts';

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

export interface RebuildRequest {
  readonly position: Position;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
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
