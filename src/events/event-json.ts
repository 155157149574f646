/** An event as JSON: what `chancery log --json` prints and the live tail sends. */
import { isUtf8 } from 'node:buffer';
import type { Actor, RecordedEvent } from './event.ts';

export interface EventJson {
  readonly id: string;
  readonly type: string;
  readonly schema: number;
  readonly stream: string;
  /** Decimal. A string, as is `position`, because JSON numbers end at 2^53. */
  readonly revision: string;
  readonly position: string;
  /** ISO 8601 in UTC, with microseconds. */
  readonly at: string;
  readonly actor: Actor;
  readonly userPath?: string;
  readonly requestId?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly traceparent?: string;
  readonly data: unknown;
  /** The body, when it is text (valid UTF-8). */
  readonly body?: string;
  /** The body, when it is not. */
  readonly body_base64?: string;
}

/** Members that the event lacks are undefined, and so absent from the JSON text. */
export function eventToJson(event: RecordedEvent): EventJson {
  const { actor, userPath, requestId, correlationId, causationId, traceparent } = event.context;
  return {
    id: event.id,
    type: event.type,
    schema: event.schema,
    stream: event.stream,
    revision: String(event.revision),
    position: event.position,
    at: isoTime(event.at),
    actor,
    userPath,
    requestId,
    correlationId,
    causationId,
    traceparent,
    data: event.data,
    ...bodyToJson(event.body),
  };
}

/** `2026-01-31T12:00:00.123456Z`. */
export function isoTime(at: number): string {
  const whole = Math.floor(at);
  const micros = Math.floor((at - whole) * 1000);
  return new Date(whole).toISOString().replace('Z', `${String(micros).padStart(3, '0')}Z`);
}

function bodyToJson(body: Uint8Array | undefined): Pick<EventJson, 'body' | 'body_base64'> {
  if (body === undefined) return {};
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return isUtf8(bytes) ? { body: bytes.toString('utf8') } : { body_base64: bytes.toString('base64') };
}

/** An event in the structured JSON form of CloudEvents 1.0. */
interface CloudEvent {
  readonly specversion: '1.0';
  readonly id: string;
  /** The log: its URL without secrets. */
  readonly source: string;
  readonly type: string;
  /** The stream. */
  readonly subject: string;
  /** RFC 3339, in UTC. */
  readonly time: string;
  readonly datacontenttype: 'application/json';
  /** Of the Sequence extension: the position in the log. */
  readonly sequence: string;
  /** Of the Distributed Tracing extension. */
  readonly traceparent?: string | undefined;
  /** The schema version of `data`. */
  readonly dataversion: string;
  readonly revision: string;
  readonly actor: string;
  readonly userpath?: string | undefined;
  readonly requestid?: string | undefined;
  readonly correlationid?: string | undefined;
  readonly causationid?: string | undefined;
  /** The raw body stands beside the event's data, as text or in base64: a CloudEvent has one payload. */
  readonly data: { readonly data: unknown; readonly body?: string; readonly body_base64?: string };
}

export function eventToCloudEvent(event: RecordedEvent, source: string): CloudEvent {
  const { data, body, body_base64, ...json } = eventToJson(event);
  return {
    specversion: '1.0',
    id: json.id,
    source,
    type: json.type,
    subject: json.stream,
    time: json.at,
    datacontenttype: 'application/json',
    sequence: json.position,
    traceparent: json.traceparent,
    dataversion: String(json.schema),
    revision: json.revision,
    actor: json.actor,
    userpath: json.userPath,
    requestid: json.requestId,
    correlationid: json.correlationId,
    causationid: json.causationId,
    data: { data, ...(body === undefined ? {} : { body }), ...(body_base64 === undefined ? {} : { body_base64 }) },
  };
}
