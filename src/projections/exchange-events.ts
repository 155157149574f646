/** The recorded events of one exchange, page by page, and the events of other streams that belong to it. */
import { chunkReceived, exchangeEnds } from '../events/catalogue/exchange.ts';
import { frameDelivered, placeholdersAssigned } from '../events/catalogue/guardrail.ts';
import { conversationPlaceholdersAssigned } from '../events/catalogue/response.ts';
import {
  categoryOf,
  formatPosition,
  idOf,
  parsePosition,
  type RecordedEvent,
  type StreamName,
} from '../events/event.ts';
import { type EventJson, eventToJson } from '../events/event-json.ts';
import type { EventLog } from '../events/log.ts';

/** The event as JSON without its body. */
export function envelopeOf(event: RecordedEvent): EventJson {
  return eventToJson({ ...event, body: undefined });
}

export interface EventsPage {
  readonly events: readonly RecordedEvent[];
  readonly hasMore: boolean;
}

export interface EventsPageOf {
  /** Only events with a greater revision. */
  readonly after?: bigint | undefined;
  readonly limit: number;
  /** A page ends behind the event with which the bytes of its bodies reach this number. */
  readonly mostBytes: number;
  /** Bytes of an event's body that count. */
  bytesOf(event: RecordedEvent): number;
}

/** The first event of the stream; undefined when there is no such stream. */
export async function firstEventOf(
  stream: StreamName,
  log: Pick<EventLog, 'readStream'>,
): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { maxCount: 1 })) return event;
  return undefined;
}

/** The event with that revision; undefined when the stream has none. */
export async function eventAt(
  stream: StreamName,
  revision: bigint,
  log: Pick<EventLog, 'readStream'>,
): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { fromRevision: revision, maxCount: 1 })) return event;
  return undefined;
}

/** Events that may follow the end of an exchange: its usage and corrections of it. */
const MOST_AFTER_END = 50;

/** Whether the end of the exchange is on record. */
export async function hasEnded(stream: StreamName, log: Pick<EventLog, 'readStream'>): Promise<boolean> {
  for await (const { type } of log.readStream(stream, { direction: 'backwards', maxCount: MOST_AFTER_END })) {
    if (exchangeEnds.has(type)) return true;
  }
  return false;
}

export async function eventsPage(
  stream: StreamName,
  { after, limit, mostBytes, bytesOf }: EventsPageOf,
  log: Pick<EventLog, 'readStream'>,
): Promise<EventsPage> {
  const events: RecordedEvent[] = [];
  let bytes = 0;
  const fromRevision = after === undefined ? 0n : after + 1n;
  for await (const event of log.readStream(stream, { fromRevision, maxCount: limit + 1 })) {
    if (events.length === limit || bytes >= mostBytes) return { events, hasMore: true };
    events.push(event);
    bytes += bytesOf(event);
  }
  return { events, hasMore: false };
}

/** An event of another stream. */
export interface RelatedEvent {
  /** `recorded_with`: recorded by the exchange in another stream. `caused`: begins an exchange that this one caused. */
  readonly relation: 'recorded_with' | 'caused';
  readonly event: RecordedEvent;
}

export interface RelatedEvents {
  readonly related: readonly RelatedEvent[];
  /** Whether the search ended before the end of the exchange because of its limits. */
  readonly truncated: boolean;
}

/** Events of the log that are read in search of exchanges that this one caused. */
const MOST_SEARCHED = 20_000;
/** Appends of the exchange behind which events of other streams are searched. */
const MOST_APPENDS = 200;
/** Events of other streams in one append. */
const MOST_IN_APPEND = 1_000;
/** An exchange that this one caused may be recorded earlier than this one, by at most so many events. */
const SEARCHED_BEFORE = 1_000;

/**
 * Events of other streams that the exchange recorded (its stored response, the turn of its conversation, and not every item
 * of these), which follow its own events in the same append; and the first events of the exchanges that guardrails and the semantic cache began
 * for it, which name it as their cause.
 */
export async function relatedEvents(stream: StreamName, log: EventLog): Promise<RelatedEvents> {
  const own: RecordedEvent[] = [];
  for await (const event of log.readStream(stream)) {
    if (!isPieceOfAnswer(event)) own.push({ ...event, body: undefined });
  }
  const [first] = own;
  const last = own.at(-1);
  if (first === undefined || last === undefined) return { related: [], truncated: false };
  const recorded = await recordedWith(own, log);
  const caused = await causedBy(idOf(stream), first, last, log);
  const related = [...recorded.related, ...caused.related].sort((one, other) =>
    one.event.position < other.event.position ? -1 : 1,
  );
  return { related, truncated: recorded.truncated || caused.truncated };
}

async function recordedWith(own: readonly RecordedEvent[], log: EventLog): Promise<RelatedEvents> {
  const related: RelatedEvent[] = [];
  const lastOfAppends = own.filter((event, place) => {
    const next = own[place + 1];
    return next === undefined || parsePosition(next.position) !== parsePosition(event.position) + 1;
  });
  for (const event of lastOfAppends.slice(-MOST_APPENDS)) {
    for await (const other of log.readAll({ after: event.position, maxCount: MOST_IN_APPEND })) {
      if (categoryOf(other.stream) === 'exchange' || !isOfSameRequest(other, event)) break;
      if (categoryOf(other.stream) !== 'item') related.push({ relation: 'recorded_with', event: other });
    }
  }
  return { related, truncated: lastOfAppends.length > MOST_APPENDS };
}

/** Events of one append share their context. A request id alone may be used by several clients. */
function isOfSameRequest({ context }: RecordedEvent, { context: own }: RecordedEvent): boolean {
  return (
    context.requestId !== undefined &&
    context.requestId === own.requestId &&
    context.actor === own.actor &&
    context.userPath === own.userPath &&
    context.causationId === own.causationId
  );
}

async function causedBy(id: string, first: RecordedEvent, last: RecordedEvent, log: EventLog): Promise<RelatedEvents> {
  const related: RelatedEvent[] = [];
  const after = formatPosition(Math.max(0, parsePosition(first.position) - 1 - SEARCHED_BEFORE));
  let searched = 0;
  for await (const event of log.readAll({ after, maxCount: MOST_SEARCHED })) {
    searched += 1;
    if (event.position > last.position) return { related, truncated: false };
    if (event.context.causationId === id && event.revision === 0n) related.push({ relation: 'caused', event });
  }
  return { related, truncated: searched === MOST_SEARCHED };
}

/** Pieces of answers: most events of a log. Folds that do not read answers skip them before anything else. */
export function isPieceOfAnswer({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return type === chunkReceived.type || type === frameDelivered.type;
}

/** Bodies of events that are only in the log: values that guardrails kept from providers, those of earlier turns included. */
const withheld: ReadonlySet<string> = new Set([placeholdersAssigned.type, conversationPlaceholdersAssigned.type]);

export function isBodyWithheld({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return withheld.has(type);
}
