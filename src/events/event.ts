/**
 * The form of events, before and after they are recorded.
 *
 * An event has two parts: `data`, a small JSON object described by the catalogue, and an optional `body`,
 * the raw bytes of the event (a request body, one stream event of a provider), stored unchanged.
 */

declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/**
 * Place in the whole log. Events are numbered 1, 2, 3, … in the order of the log, without gaps, in every engine; only
 * positions that an operator accepted as lost (`chancery log accept-loss`) are missing. Outside the engines a position
 * is an unsigned 64-bit integer as a string of decimal digits, in JSON too, because JSON numbers are exact only up to
 * 2^53. The gateway writes positions of one log with the same number of digits, so that they sort as strings; `START`
 * (`0`) sorts before all of them.
 */
export type Position = Brand<string, 'Position'>;
/** `category-id`, for example `exchange-0193…`. */
export type StreamName = Brand<string, 'StreamName'>;
/** A slash-separated path of an organisation, always starting with `/`. */
export type UserPath = Brand<string, 'UserPath'>;

/** A time of the system clock, in milliseconds since the epoch. */
export type EpochMs = number;

/** Who caused an event: the master key, a managed key, or the gateway itself. */
export type Actor = 'master' | 'system' | `key:${string}`;

/** The id of the managed key; undefined when the actor is not one. */
export function managedKeyId(actor: string): string | undefined {
  return actor.startsWith('key:') ? actor.slice('key:'.length) : undefined;
}

/**
 * The context that all events of one exchange or command share. One unchanged object per exchange or command is passed
 * with each of its events, so that an engine may encode it once and recognise it by identity.
 */
export interface EventContext {
  readonly actor: Actor;
  readonly userPath?: UserPath;
  /** The client's `X-Request-ID`, or the one the gateway minted. Recorded, never trusted to be unique. */
  readonly requestId?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly traceparent?: string;
}

/** An event for `append`. */
export interface NewEvent<Type extends string = string, Data extends object = object> {
  readonly type: Type;
  readonly schema: number;
  readonly data: Data;
  readonly context: EventContext;
  readonly body?: Uint8Array;
  /** UUIDv7; created on append when absent. A caller that may have to retry passes one. */
  readonly id?: string;
  /** Milliseconds since the epoch, with a fraction; the time of append when absent. */
  readonly at?: number;
  /**
   * Makes it stand for that many events, whose `data` ends with consecutive numbers `index`, the first one given, and whose
   * bodies are the parts of `body`: each ends where the member says. It has neither `id` nor `at`.
   */
  readonly bodyEnds?: readonly number[];
}

/** How many events these are in the log. */
export function countEvents(events: readonly NewEvent[]): number {
  let count = events.length;
  for (const { bodyEnds } of events) if (bodyEnds !== undefined) count += bodyEnds.length - 1;
  return count;
}

/** The events, each by itself. */
export function separateEvents(events: readonly NewEvent[]): readonly NewEvent[] {
  return events.flatMap(({ bodyEnds, ...event }) => {
    if (bodyEnds === undefined) return event;
    const { index } = event.data as { index: number };
    return bodyEnds.map((end, place) => ({
      ...event,
      data: { ...event.data, index: index + place },
      body: event.body?.subarray(bodyEnds[place - 1] ?? 0, end),
    }));
  });
}

/** An event that was read from the log. `data` has been upcast to the newest schema by the catalogue's reader. */
export interface RecordedEvent<Type extends string = string, Data = unknown> {
  readonly id: string;
  readonly type: Type;
  readonly schema: number;
  readonly stream: StreamName;
  /** Place in its stream: 0, 1, 2, … without gaps. */
  readonly revision: bigint;
  readonly position: Position;
  /** Milliseconds since the epoch, with a fraction. */
  readonly at: number;
  readonly context: EventContext;
  readonly data: Data;
  readonly body?: Uint8Array;
}

export function streamName(category: string, id: string): StreamName {
  return `${category}-${id}` as StreamName;
}

/** The part of a stream name before the first `-`. */
export function categoryOf(stream: StreamName): string {
  const dash = stream.indexOf('-');
  return dash === -1 ? stream : stream.slice(0, dash);
}

/** The part of a stream name after the first `-`. */
export function idOf(stream: StreamName): string {
  return stream.slice(stream.indexOf('-') + 1);
}

/** The user paths at and above a user path, root first: `/`, `/team`, `/team/alpha` for `/team/alpha`. */
export function pathsAbove(userPath: string): string[] {
  const paths = ['/'];
  for (let slash = userPath.indexOf('/', 1); slash !== -1; slash = userPath.indexOf('/', slash + 1)) {
    paths.push(userPath.slice(0, slash));
  }
  if (userPath !== '/') paths.push(userPath);
  return paths;
}

// Positions between their two forms: at the edge, zero-padded decimal strings that sort as strings; inside the engines,
// numbers. Consumers must read the strings as unsigned 64-bit integers. This version writes at most 2^53 − 1, the largest
// integer that a number holds exactly, and refuses larger ones.

/** Sorts before every position of every engine. */
export const START = '0' as Position;
const digits = 16;
const tailSize = 10_000;
const tails = Array.from({ length: tailSize }, (_, tail) => String(tail).padStart(4, '0'));
let cachedHead = -1;
let cachedPrefix = '';

export class InvalidPosition extends Error {
  readonly code = 'invalid_position';
  constructor(position: string) {
    super(`"${position}" is not a position of this log: expected a decimal number of at most ${digits} digits`);
  }
}

/** 16 digits; 0, the place before every event, is `START`. Runs once per event, hence the kept prefix. */
export function formatPosition(sequence: number): Position {
  if (sequence === 0) return START;
  const head = Math.floor(sequence / tailSize);
  if (head !== cachedHead) {
    cachedHead = head;
    cachedPrefix = String(head).padStart(digits - 4, '0');
  }
  return (cachedPrefix + tails[sequence - head * tailSize]) as Position;
}

/** The position just before an event: a read after it begins with that event. */
export function positionBefore(position: Position): Position {
  return formatPosition(Math.max(0, parsePosition(position) - 1));
}

/** Takes any decimal number, padded or not. @throws InvalidPosition */
export function parsePosition(position: string): number {
  const sequence = /^\d{1,16}$/.test(position) ? Number(position) : Number.NaN;
  if (!Number.isSafeInteger(sequence)) throw new InvalidPosition(position);
  return sequence;
}
