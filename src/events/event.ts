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
 * (`0`) sorts before all of them. `sequence-position.ts` converts.
 */
export type Position = Brand<string, 'Position'>;
/** `category-id`, for example `exchange-0193…`. */
export type StreamName = Brand<string, 'StreamName'>;
/** A slash-separated path of an organisation, always starting with `/`. */
export type UserPath = Brand<string, 'UserPath'>;

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
