/** The recorded texts of a request: what the client sent, what guardrails made of it, and what providers returned. */
import { isEnd, numberOf, type RecordedEvent, textOf, timeOf } from './recorded-event.ts';

export interface RecordedBody {
  /** Undefined when the bytes are not text. */
  readonly text: string | undefined;
  readonly bytes: number;
  /** The rest is read by the revision of the event. */
  readonly isCut: boolean;
  readonly event: RecordedEvent;
}

/** Undefined when the event has no body that may be shown. */
export function bodyOf(event: RecordedEvent | undefined): RecordedBody | undefined {
  if (event === undefined || event.body_bytes === undefined || event.body_withheld === true) return undefined;
  return { text: event.body, bytes: event.body_bytes, isCut: event.body_cut === true, event };
}

/** The client's request. */
export function requestBody(events: readonly RecordedEvent[]): RecordedBody | undefined {
  return bodyOf(events.find(({ type }) => type === 'request.received'));
}

/** The request each time that guardrails changed it. */
export function guardedBodies(events: readonly RecordedEvent[]): readonly RecordedBody[] {
  return events.flatMap((event) =>
    event.type === 'guardrail.applied' && textOf(event.data, 'phase') === 'prompt' ? (bodyOf(event) ?? []) : [],
  );
}

export interface StreamFrame {
  /** Milliseconds since the request was received. */
  readonly offsetMs: number;
  readonly text: string;
}

export interface RecordedStream {
  /** `delivered`: as the client received it. `provider`: as the provider sent it. */
  readonly side: 'delivered' | 'provider';
  readonly frames: readonly StreamFrame[];
}

/** The frames of the last attempt: those for the client where guardrails evaluated them, else those of the provider. */
export function recordedStream(events: readonly RecordedEvent[]): RecordedStream | undefined {
  const received = events[0];
  if (received === undefined || received.type !== 'request.received') return undefined;
  const since = timeOf(received);
  const lastStart = events.findLastIndex(({ type }) => type === 'attempt.started');
  const ofLast = events.slice(Math.max(0, lastStart));
  const framesOf = (type: string): StreamFrame[] =>
    ofLast.flatMap((event) =>
      event.type === type && event.body !== undefined
        ? [{ offsetMs: Math.max(0, timeOf(event) - since), text: event.body }]
        : [],
    );
  const delivered = framesOf('frame.delivered');
  if (delivered.length > 0) return { side: 'delivered', frames: delivered };
  const provider = framesOf('chunk.received');
  return provider.length === 0 ? undefined : { side: 'provider', frames: provider };
}

/** What the last provider sent, as one text; undefined when it was not kept or is not text. */
export function providerAnswer(events: readonly RecordedEvent[]): string | undefined {
  const lastStart = events.findLastIndex(({ type }) => type === 'attempt.started');
  const pieces = events.slice(Math.max(0, lastStart)).filter(({ type }) => type === 'chunk.received');
  if (pieces.length === 0 || pieces.some(({ body }) => body === undefined)) return undefined;
  return pieces.map(({ body }) => body).join('');
}

/** The error that the provider of an attempt sent. */
export function errorBodies(
  events: readonly RecordedEvent[],
): readonly (RecordedBody & { readonly attempt: number })[] {
  return events.flatMap((event) => {
    const body = event.type === 'attempt.failed' ? bodyOf(event) : undefined;
    return body === undefined ? [] : [{ ...body, attempt: numberOf(event.data, 'attempt') ?? 0 }];
  });
}

/** The body of the event that ended the request: the answer, where it differs from that of the provider. */
export function endBody(events: readonly RecordedEvent[]): RecordedBody | undefined {
  return bodyOf(events.find(isEnd));
}
