/** One frame of the live tail, and the filter that decides which frames a listener gets. */
import type { EpochMs, Position, RecordedEvent, StreamName } from '../events/event.ts';
import type { EventFilter } from '../events/log.ts';

export interface LiveFrame {
  /** The name on the wire: `audit.started`, or an event type in the raw view. */
  readonly type: string;
  /** A second name that filters match: the event type behind a preview, the preview family of an event. */
  readonly alias: string | undefined;
  /** A listener that got this frame has got everything up to this position. */
  readonly position: Position;
  readonly at: EpochMs;
  readonly stream: StreamName;
  readonly exchangeId: string | undefined;
  readonly requestId: string | undefined;
  readonly userPath: string | undefined;
  /** Of the request; undefined for what belongs to no request. */
  readonly path: string | undefined;
  /** Of the managed key that sent the request, or made the change. */
  readonly keyId: string | undefined;
  /** A value to be written as JSON, by way of `toJSON` where that takes work. It does not change any more. */
  readonly data: unknown;
  /** Shorter data, for clients that show a row for each request. Undefined when it is the same. */
  readonly row?: object;
  /** About how many bytes it keeps alive. */
  readonly weight: number;
}

export interface LiveFilter {
  /**
   * Words that name a frame by its type or its alias, whole or up to a dot: `audit`, `usage.completed`, `request.`.
   * An empty list matches nothing.
   */
  readonly types?: readonly string[];
  /** The id of a request, from the client or the gateway. */
  readonly request?: string;
  /** Prefix of the request's path. */
  readonly path?: string;
  /** Prefix of the stream's name. */
  readonly stream?: string;
  /** A user path: it and all below it. */
  readonly userPath?: string;
  /** The id of a managed key. */
  readonly keyId?: string;
  /** Only what belongs to exchanges. */
  readonly exchangesOnly?: boolean;
}

/** Compiles the filter to a function, since it is applied to many frames. */
export function matchesFilter(filter: LiveFilter): (frame: LiveFrame) => boolean {
  const tests: ((frame: LiveFrame) => boolean)[] = [];
  const { types, request, path, stream, userPath, keyId, exchangesOnly = false } = filter;
  if (types !== undefined) {
    tests.push(({ type, alias }) =>
      types.some((word) => isNamed(type, word) || (alias !== undefined && isNamed(alias, word))),
    );
  }
  if (exchangesOnly) tests.push(({ exchangeId }) => exchangeId !== undefined);
  if (request !== undefined) tests.push((frame) => frame.requestId === request || frame.exchangeId === request);
  if (path !== undefined) tests.push((frame) => frame.path?.startsWith(path) === true);
  if (stream !== undefined) tests.push((frame) => frame.stream.startsWith(stream));
  if (keyId !== undefined) tests.push((frame) => frame.keyId === keyId);
  if (userPath !== undefined) {
    const root = userPath === '/' ? '/' : `${userPath}/`;
    tests.push((frame) => frame.userPath === userPath || frame.userPath?.startsWith(root) === true);
  }
  return (frame) => tests.every((test) => test(frame));
}

function isNamed(name: string, word: string): boolean {
  return name === word || name.startsWith(word.endsWith('.') ? word : `${word}.`);
}

/** The log's filter: `view`, the events that the view needs, narrowed to the streams of the listener's filter. */
export function narrowed(view: EventFilter, { stream }: LiveFilter): EventFilter {
  if (stream === undefined) return view;
  const streams = (view.streams ?? ['']).flatMap((prefix) => {
    if (stream.startsWith(prefix)) return [stream];
    return prefix.startsWith(stream) ? [prefix] : [];
  });
  return { ...view, streams };
}

/** `whole` frames have bodies and headers, `rows` what a list shows. */
export type FrameForm = 'whole' | 'rows';

const rendered = { whole: new WeakMap<LiveFrame, Buffer>(), rows: new WeakMap<LiveFrame, Buffer>() };

/** The frame as server-sent event bytes: made once for each form, however many listeners get it. */
export function frameBytes(frame: LiveFrame, form: FrameForm): Buffer {
  let bytes = rendered[form].get(frame);
  if (bytes === undefined) {
    bytes = eventBytes(frame.type, envelope(frame, form), frame.position);
    rendered[form].set(frame, bytes);
  }
  return bytes;
}

/**
 * A frame about an event before the listener connected. It carries no `id:`, so that a listener that loses its
 * connection between two of them gets all of them again.
 */
export function snapshotBytes(frame: LiveFrame, form: FrameForm): Buffer {
  return eventBytes(frame.type, envelope(frame, form), undefined);
}

/** `heartbeat` or `reset`: carries only the position up to which the listener has got everything. */
export function controlBytes(type: 'heartbeat' | 'reset', position: Position, at: number): Buffer {
  return eventBytes(type, { seq: position, type, timestamp: new Date(at).toISOString() }, position);
}

function envelope({ position, type, requestId, at, data, row }: LiveFrame, form: FrameForm): object {
  const timestamp = new Date(at).toISOString();
  return { seq: position, type, request_id: requestId, timestamp, data: form === 'rows' ? (row ?? data) : data };
}

function eventBytes(type: string, data: object, id: Position | undefined): Buffer {
  return Buffer.from(`${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
}

/**
 * The views of the live tail: previews of requests, or the events themselves. A view turns events into frames, at most
 * one frame for each event. It is a fold: the same events give the same frames, read live or later.
 */
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
