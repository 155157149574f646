/**
 * The views of the live tail: previews of requests, or the events themselves. A view turns events into frames, at most
 * one frame for each event. It is a fold: the same events give the same frames, read live or later.
 */
import type { Position, RecordedEvent } from '../events/event.ts';
import type { EventFilter } from '../events/log.ts';
import type { LiveFrame } from './live-frame.ts';

export interface LiveView {
  readonly name: 'previews' | 'events';
  readonly filter: EventFilter;
  /** A fold without state. It may begin at any position of the log. */
  begin(): LiveFold;
}

export interface LiveFold {
  /**
   * The frame for this event, when it has one. A promise when the fold must first read events of the request before the
   * position at which the fold began.
   */
  apply(event: RecordedEvent): LiveFrame | undefined | Promise<LiveFrame | undefined>;
  /**
   * The delayed frames that are due now; delays limit the rate for listeners. Only called when live.
   * @param now milliseconds since the epoch
   * @param position everything up to here has been applied
   */
  due(now: number, position: Position): LiveFrame[];
}
