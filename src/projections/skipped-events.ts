/** Events that a projection cannot apply, and those that an operator skipped. */
import { skippedStream, viewEventSkipped } from '../events/catalogue/view.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA } from './known-event.ts';

export interface Skipped {
  readonly view: string;
  readonly position: Position;
  readonly eventType: string;
  readonly reason: string;
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
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

/** An event on which a projection stops. The message names the event, and what an operator can do. */
export class UnprocessableEvent extends Error {
  readonly code = 'poisoned_event';
  constructor(view: string, { position, type, stream }: RecordedEvent, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(
      `event ${position} (${type} of ${stream}) cannot be processed: ${why}; ` +
        `"chancery views skip ${view} --position ${position} --reason …" continues without it`,
      { cause },
    );
  }
}
