/** The recorded requests of a range of time in the order of the log, read page by page. */

import { modelResolved, requestReceived } from '../../../events/catalogue/exchange.ts';
import { guardrailApplied } from '../../../events/catalogue/guarded-exchange.ts';
import type { Position, RecordedEvent, StreamName } from '../../../events/event.ts';
import { type EventLog, START } from '../../../events/log.ts';
import { positionAtTime } from '../../../events/position-at-time.ts';
import { parsePosition } from '../../../events/sequence-position.ts';
import { isObject } from '../../../json/is-object.ts';
import { type RecordedExchange, withEvent } from '../../exchange/record/read-exchange.ts';
import { isAtOrBelow } from '../../workflows/scope.ts';

/** Times are milliseconds since the epoch: `from` inclusive, `until` exclusive. */
export interface ReplayRange {
  readonly from: number;
  readonly until: number;
  /** This path and everything below it. */
  readonly userPath?: string | undefined;
}

/** The part of the log in which the range lies. */
export interface LogRange {
  /** Exclusive. */
  readonly after: Position;
  /** Inclusive. */
  readonly last: Position;
}

/** Neighbouring events may be out of order by this time. */
const DISORDER_MS = 60_000;

export async function logRange({ from, until }: ReplayRange, log: EventLog): Promise<LogRange> {
  const head = await log.head();
  const [after, end] = await Promise.all([
    from <= DISORDER_MS ? START : positionAtTime(log, from - DISORDER_MS),
    positionAtTime(log, until + DISORDER_MS),
  ]);
  const isOpen = end > head;
  return { after, last: isOpen ? head : end };
}

/** How much of the range is before this event, from 0 to 1. */
export function placeIn({ after, last }: LogRange, { position }: Pick<RecordedEvent, 'position'>): number {
  const begin = parsePosition(after);
  const length = parsePosition(last) - begin;
  return length <= 0 ? 1 : Math.min(1, (parsePosition(position) - begin) / length);
}

/** @param after in place of the beginning of the range of the log */
export async function* requestsIn(
  range: ReplayRange,
  within: LogRange,
  { log, signal }: { readonly log: EventLog; readonly signal: AbortSignal },
  after: Position = within.after,
): AsyncGenerator<RecordedEvent> {
  const filter = { types: [requestReceived.type], streams: ['exchange-'] };
  for await (const event of log.readAll({ after, filter, signal })) {
    if (signal.aborted || event.position > within.last) return;
    if (isRequestIn(range, event)) yield event;
  }
}

/** Whether the event is a request of the range. */
export function isRequestIn(range: ReplayRange, event: RecordedEvent): boolean {
  return event.type === requestReceived.type && isIn(range, event) && !isOwnCall(event);
}

function isIn({ from, until, userPath }: ReplayRange, { at, context }: RecordedEvent): boolean {
  if (at < from || at >= until) return false;
  return userPath === undefined || isAtOrBelow(context.userPath ?? '/', userPath);
}

/** No guardrails run for the calls of guardrails. */
function isOwnCall({ data }: RecordedEvent): boolean {
  return isObject(data) && data['origin'] !== undefined;
}

export interface ReplayedExchange {
  readonly recorded: RecordedExchange;
  /** Its whole stream. */
  readonly events: readonly RecordedEvent[];
  /** The first candidate of the request; undefined when it was refused before one was found. */
  readonly target: { readonly provider: string; readonly model: string } | undefined;
  /** Whether guardrails ran when the request was made. */
  readonly wasGuarded: boolean;
}

/** Undefined when the exchange is no longer in the log. */
export async function readReplayed(stream: StreamName, log: EventLog): Promise<ReplayedExchange | undefined> {
  const events: RecordedEvent[] = [];
  for await (const event of log.readStream(stream)) events.push(event);
  return replayedOf(events);
}

/** @param events of one exchange, from its beginning to its end or as far as there are any */
export function replayedOf(events: readonly RecordedEvent[]): ReplayedExchange | undefined {
  let recorded: RecordedExchange | undefined;
  let target: ReplayedExchange['target'];
  let wasGuarded = false;
  for (const event of events) {
    recorded = withEvent(recorded, event);
    if (event.type === guardrailApplied.type) wasGuarded = true;
    if (event.type === modelResolved.type && target === undefined) {
      const { provider, model } = modelResolved.data.parse(event.data);
      target = { provider, model };
    }
  }
  return recorded === undefined ? undefined : { recorded, events, target, wasGuarded };
}
