/**
 * What a listener of the live tail can look at: previews of requests, or the events themselves. A view turns events
 * into frames, one frame at most for each event; it is a fold, so the same events give the same frames whether they
 * are read live or an hour later.
 */
import type { Position, RecordedEvent } from '../events/event.ts';
import type { EventFilter } from '../events/log.ts';
import type { LiveFrame } from './live-frame.ts';

export interface LiveView {
  readonly name: 'previews' | 'events';
  readonly filter: EventFilter;
  /** A fold that has seen nothing yet. It may be put anywhere in the log. */
  begin(): LiveFold;
}

export interface LiveFold {
  /**
   * The frame for this event, when it has one. A promise when the fold must first read what happened to the request
   * before the place in the log where the fold began.
   */
  apply(event: RecordedEvent): LiveFrame | undefined | Promise<LiveFrame | undefined>;
  /**
   * Frames for what was held back to spare the listeners and is now due. Only asked when live.
   * @param now milliseconds since the epoch
   * @param position everything up to here has been applied
   */
  due(now: number, position: Position): LiveFrame[];
}
