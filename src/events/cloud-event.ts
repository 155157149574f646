/** An event in the structured JSON form of CloudEvents 1.0. */
import type { RecordedEvent } from './event.ts';
import { eventToJson } from './event-json.ts';

export interface CloudEvent {
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
