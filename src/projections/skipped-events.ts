/** Events that a projection cannot apply, and those that an operator skipped. */
import { skippedStream, viewEventSkipped } from '../events/catalogue/gateway.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA, isCaughtUp } from './known-event.ts';

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
