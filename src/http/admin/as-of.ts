/** `?as_of=<time or position>`: a list as it was at that moment, folded from the log by the very fold that keeps it. */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import type { Position } from '../../events/event.ts';
import { type EventLog, START } from '../../events/log.ts';
import { formatPosition, positionBefore } from '../../events/sequence-position.ts';
import { type AdminJournal, newestBy } from '../../projections/admin-journal.ts';
import { foldAsOf } from '../../projections/fold-as-of.ts';
import type { Projection } from '../../projections/projection.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { isCalendarDay } from '../calendar-day.ts';
import { type Query, single } from '../query.ts';

export interface AsOfDependencies {
  readonly log: EventLog;
  readonly journal: Pick<RunningProjection<AdminJournal>, 'state' | 'whenProcessed'>;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** A moment that was asked for: everything up to `position` had happened, and nothing after it. */
export interface Moment {
  readonly position: Position;
  /** Milliseconds since the epoch: the time that was asked for, or that of the event at the position. */
  readonly at: number;
}

export interface AsOf {
  /** @returns undefined when the request does not ask. @throws Refusal 400 for nonsense and for the future */
  moment(request: FastifyRequest): Promise<Moment | undefined>;
  /** The state of a projection of administrators' changes, then. */
  fold<State>(projection: Projection<State>, moment: Moment): Promise<State>;
}

export function createAsOf({ log, journal, now }: AsOfDependencies): AsOf {
  async function moment(request: FastifyRequest): Promise<Moment | undefined> {
    const given = single((request.query as Query)['as_of']);
    if (given === undefined) return undefined;
    const head = await log.head();
    await journal.whenProcessed(head);
    if (/^\d{1,16}$/.test(given)) {
      const position = positionIn(given, head);
      return { position, at: await timeOfEvent(position, log) };
    }
    const at = timeOf(given, 'as_of', ', or a position of the log');
    if (at > now()) throw refusals.invalidRequest(`'as_of' is ${given}, which is yet to come.`, 'as_of');
    return { position: newestBy(journal.state, at)?.position ?? START, at };
  }

  return {
    moment,
    fold: (projection, { position }) => foldAsOf(projection, log, journal.state, position),
  };
}

function positionIn(given: string, head: Position): Position {
  const position = formatPosition(Number(given));
  if (position > head) {
    throw refusals.invalidRequest(`'as_of' is position ${given}, and the log has come to ${head} only.`, 'as_of');
  }
  return position;
}

/** 0 of the place before every event. */
async function timeOfEvent(position: Position, log: EventLog): Promise<number> {
  if (position === START) return 0;
  for await (const { at } of log.readAll({ after: positionBefore(position), maxCount: 1 })) return Math.floor(at);
  return 0;
}

const TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/**
 * Milliseconds since the epoch of a date, which begins in UTC, or of a time with its zone.
 * @param orElse what could have been given instead
 * @throws Refusal 400
 */
export function timeOf(given: string, param: string, orElse = ''): number {
  // In a query a plus sign that was not encoded has become a space.
  const text = given.replace(/ (?=\d\d:\d\d$)/, '+');
  const at = TIME.test(text) && isCalendarDay(text.slice(0, 10)) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) {
    throw refusals.invalidRequest(
      `'${param}' must be a date, or a time with its zone, such as 2026-03-01T09:00:00Z${orElse}.`,
      param,
    );
  }
  return at;
}
