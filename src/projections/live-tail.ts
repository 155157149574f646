/**
 * The live tail sends the log to its listeners as frames. One subscription and one fold serve all listeners of a view.
 * The last frames are kept, so that a listener moves from its own catch-up to the shared tail at an exact position, and
 * a listener that reconnects after a short break causes no read of the log.
 *
 * A listener alternates between two states: `catchUp` from its cursor at its own pace, `join` when it is near the end,
 * and `catchUp` again when it cannot keep up.
 */
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { auditTime, buffer, connect, filter, interval, Observable, share, tap } from 'rxjs';
import { requestReceived } from '../events/catalogue/exchange.ts';
import {
  categoryOf,
  idOf,
  managedKeyId,
  type Position,
  type RecordedEvent,
  START,
  type StreamName,
} from '../events/event.ts';
import { eventToJson } from '../events/event-json.ts';
import type { EventFilter, EventLog } from '../events/log.ts';
import { isBodyWithheld } from './exchange-events.ts';
import type { LiveFold, LiveFrame, LiveView } from './live-frame.ts';
import { previewTypeOf } from './preview-view.ts';
import { isA, isCaughtUp } from './projection.ts';

/** Frames are handed over together after this time, so that a burst costs a listener one write. */
const BATCH_MS = 10;
/** How often a view's delayed frames are sent. */
const DUE_EVERY_MS = 500;
/** Frames kept for listeners that join, and their size in bytes. */
const KEPT_FRAMES = 2_000;
const KEPT_BYTES = 8 * 1024 * 1024;
/** A listener that catches up yields the event loop at least this often. */
const YIELD_EVERY_MS = 5;

export interface CatchUpStep {
  readonly frame: LiveFrame | undefined;
  /** Everything up to here has been yielded or filtered out. */
  readonly position: Position;
}

export interface TailSubscription {
  /** Everything up to here has been handed over. */
  readonly position: Position;
  leave(): void;
}

export interface Listener {
  /** The next frames, in order: none is missing and none comes twice. */
  frames(frames: readonly LiveFrame[]): void;
  /** The log cannot be read. The seat is gone; the listener may try again from its position. */
  failed(error: unknown): void;
}

interface Numbered {
  /** Numbers the frames. Positions are not unique: a delayed frame carries the position of another event. */
  readonly number: number;
  readonly frame: LiveFrame;
}

export class LiveTail {
  readonly view: LiveView;
  readonly #log: EventLog;
  readonly #batches: Observable<readonly Numbered[]>;
  /** The newest frames, oldest first: every frame after `#keptSince` is here or still to be made. */
  #kept: Numbered[] = [];
  #keptBytes = 0;
  #keptSince: Position = START;
  /** Everything up to here has become frames. */
  #position: Position = START;
  #lastNumber = 0;
  /** Everything up to here has been handed over. */
  #delivered: Position = START;
  #deliveredNumber = 0;
  #listeners = 0;

  constructor(log: EventLog, view: LiveView) {
    this.#log = log;
    this.view = view;
    this.#batches = this.#frames().pipe(
      connect((frames) => frames.pipe(buffer(frames.pipe(auditTime(BATCH_MS))))),
      filter((batch) => batch.length > 0),
      tap((batch) => {
        this.#delivered = this.#position;
        this.#deliveredNumber = batch.at(-1)?.number ?? this.#deliveredNumber;
      }),
      share(),
    );
  }

  /** Listeners with a seat. Without any, the log is not read. */
  get listeners(): number {
    return this.#listeners;
  }

  /** From `after` to the present end of the log, or further. Reads only as fast as the consumer pulls. */
  async *catchUp(after: Position, filter: EventFilter, signal: AbortSignal): AsyncGenerator<CatchUpStep> {
    const end = await this.#log.head();
    const fold = this.view.begin();
    let yieldedAt = performance.now();
    let position = after;
    for await (const event of this.#log.readAll({ after, filter, signal })) {
      const frame = await fold.apply(event);
      position = event.position;
      yield { frame, position };
      if (performance.now() - yieldedAt > YIELD_EVERY_MS) {
        await yieldToOthers();
        yieldedAt = performance.now();
      }
    }
    // Events that the filter left out count as yielded.
    if (end > position) yield { frame: undefined, position: end };
  }

  /**
   * A seat for a listener that has got everything up to `position`. Undefined when some later frames are not kept any
   * more: the listener must catch up first.
   */
  join(position: Position, listener: Listener): TailSubscription | undefined {
    if (this.#listeners === 0) this.#restart(position);
    if (position < this.#keptSince) return undefined;
    this.#listeners += 1;
    let isSubscribed = true;
    const leave = () => {
      if (!isSubscribed) return;
      isSubscribed = false;
      this.#listeners -= 1;
      subscription.unsubscribe();
      // Frames are kept for listeners that join; the last listener has left.
      if (this.#listeners === 0) this.#restart(this.#position);
    };
    const missed = this.#kept.filter(({ frame }) => frame.position > position).map(({ frame }) => frame);
    const from = this.#lastNumber;
    const subscription = this.#batches.subscribe({
      next: (batch) => {
        // The shared tail may be behind this listener when it joins.
        const fresh = batch.filter(({ number, frame }) => number > from && frame.position > position);
        if (isSubscribed && fresh.length > 0) listener.frames(fresh.map(({ frame }) => frame));
      },
      error: (error: unknown) => {
        leave();
        listener.failed(error);
      },
    });
    if (missed.length > 0) listener.frames(missed);
    const sentSoFar = () => (this.#deliveredNumber === this.#lastNumber ? this.#position : this.#delivered);
    return {
      get position() {
        const sent = sentSoFar();
        return sent > position ? sent : position;
      },
      leave,
    };
  }

  #restart(position: Position): void {
    this.#kept = [];
    this.#keptBytes = 0;
    this.#keptSince = position;
    this.#position = position;
    this.#delivered = position;
    this.#deliveredNumber = this.#lastNumber;
  }

  /** Runs while there are subscribers, and begins at the position that `#restart` set. */
  #frames(): Observable<Numbered> {
    return new Observable((subscriber) => {
      const stopping = new AbortController();
      const fold = this.view.begin();
      const emit = (frame: LiveFrame) => subscriber.next(this.#keep(frame));
      this.#follow(fold, emit, stopping.signal).catch((error: unknown) => {
        if (!stopping.signal.aborted) subscriber.error(error);
      });
      subscriber.add(
        interval(DUE_EVERY_MS).subscribe(() => {
          for (const frame of fold.due(Date.now(), this.#position)) emit(frame);
        }),
      );
      subscriber.add(() => stopping.abort());
    });
  }

  async #follow(fold: LiveFold, emit: (frame: LiveFrame) => void, signal: AbortSignal): Promise<void> {
    for await (const event of this.#log.subscribe({ after: this.#position, filter: this.view.filter, signal })) {
      if (signal.aborted) return;
      if (isCaughtUp(event)) {
        if (event.position > this.#position) this.#position = event.position;
        continue;
      }
      const made = fold.apply(event);
      const frame = made instanceof Promise ? await made : made;
      if (signal.aborted) return;
      this.#position = event.position;
      if (frame !== undefined) emit(frame);
    }
    // The log ended the subscription without an abort: it is closing.
    if (!signal.aborted) throw new Error('the log was closed');
  }

  #keep(frame: LiveFrame): Numbered {
    this.#lastNumber += 1;
    const numbered = { number: this.#lastNumber, frame };
    this.#kept.push(numbered);
    this.#keptBytes += frame.weight;
    if (this.#kept.length > KEPT_FRAMES || this.#keptBytes > KEPT_BYTES) this.#dropOldest();
    return numbered;
  }

  #dropOldest(): void {
    // Half at once: removing single frames would move the whole list for every frame.
    const kept = this.#kept.slice(Math.ceil(this.#kept.length / 2));
    const dropped = this.#kept[this.#kept.length - kept.length - 1];
    this.#kept = kept;
    this.#keptBytes = kept.reduce((sum, { frame }) => sum + frame.weight, 0);
    if (dropped !== undefined) this.#keptSince = dropped.frame.position;
  }
}

// The raw view of the live tail: every recorded event of the log.

/** Maximum number of requests whose path is cached. The path of any other is read from its stream again. `max` would allocate them at once. */
const MAX_PATHS = 10_000;

export function eventView(log: EventLog): LiveView {
  return { name: 'events', filter: {}, begin: () => new EventFold(log) };
}

class EventFold implements LiveFold {
  readonly #log: EventLog;
  /** `path` is undefined for a stream that does not begin with a request. */
  readonly #paths = new LRUCache<StreamName, { readonly path: string | undefined }>({
    maxSize: MAX_PATHS,
    sizeCalculation: () => 1,
  });

  constructor(log: EventLog) {
    this.#log = log;
  }

  apply(event: RecordedEvent): LiveFrame | Promise<LiveFrame> {
    if (categoryOf(event.stream) !== 'exchange') return frameOf(event, undefined);
    if (isA(event, requestReceived)) this.#paths.set(event.stream, { path: event.data.path });
    const known = this.#paths.get(event.stream);
    return known === undefined ? this.#frameFromLog(event) : frameOf(event, known.path);
  }

  due(): LiveFrame[] {
    return [];
  }

  async #frameFromLog(event: RecordedEvent): Promise<LiveFrame> {
    let path: string | undefined;
    for await (const first of this.#log.readStream(event.stream, { maxCount: 1 })) {
      if (isA(first, requestReceived)) path = first.data.path;
    }
    this.#paths.set(event.stream, { path });
    return frameOf(event, path);
  }
}

function frameOf(event: RecordedEvent, path: string | undefined): LiveFrame {
  return {
    type: event.type,
    alias: previewTypeOf(event.type),
    position: event.position,
    at: event.at,
    stream: event.stream,
    exchangeId: categoryOf(event.stream) === 'exchange' ? idOf(event.stream) : undefined,
    requestId: event.context.requestId,
    userPath: event.context.userPath,
    path,
    keyId: managedKeyId(event.context.actor),
    data: { toJSON: () => visibleJson(event) },
    weight: 500 + (event.body?.length ?? 0),
  };
}

/** The event as it is in the log, but for bodies that are only there. */
function visibleJson(event: RecordedEvent): object {
  return isBodyWithheld(event)
    ? { ...eventToJson({ ...event, body: undefined }), body_withheld: true }
    : eventToJson(event);
}
