/** `?as_of=<time or position>`: a list as of that moment, folded from the log by the fold that maintains it. */
import { refusals } from '../../commands/refusal.ts';
import { type EpochMs, type Position, positionBefore, START } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { foldAsOf } from '../../projections/admin-history.ts';
import { type AdminJournal, newestBy } from '../../projections/admin-journal.ts';
import type { Projection } from '../../projections/projection.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { dayOrTime } from '../dates.ts';
import { logPosition } from '../paging.ts';

export interface AsOfDependencies {
  readonly log: EventLog;
  readonly journal: Pick<RunningProjection<AdminJournal>, 'state' | 'whenProcessed'>;
  now(): EpochMs;
}

/** A requested moment: it includes every event up to `position`, and no later one. */
export interface Moment {
  readonly position: Position;
  /** Milliseconds since the epoch: the requested time, or the time of the event at the position. */
  readonly at: number;
}

export interface AsOf {
  /**
   * @param given `as_of` of a query
   * @returns undefined without it
   * @throws Refusal 400 for an invalid value or a future moment
   */
  moment(given: string | undefined): Promise<Moment | undefined>;
  /** The state of an admin projection at that moment. */
  fold<State>(projection: Projection<State>, moment: Moment): Promise<State>;
  /** The state at the moment `given` in a query, or else the current one. @throws Refusal 400 */
  state<State>(
    given: string | undefined,
    projection: Projection<State>,
    current: { readonly state: State },
  ): Promise<State>;
}

export function createAsOf({ log, journal, now }: AsOfDependencies): AsOf {
  async function moment(given: string | undefined): Promise<Moment | undefined> {
    if (given === undefined) return undefined;
    const head = await log.head();
    await journal.whenProcessed(head);
    if (/^\d+$/.test(given)) {
      const position = reachedPosition(given, head);
      return { position, at: await timeOfEvent(position, log) };
    }
    const at = dayOrTime(given, 'as_of', ', or a position of the log');
    if (at > now()) throw refusals.invalidRequest(`'as_of' is ${given}, which is in the future.`, 'as_of');
    return { position: newestBy(journal.state, at)?.position ?? START, at };
  }

  const fold = <State>(projection: Projection<State>, { position }: Moment) =>
    foldAsOf(projection, log, journal.state, position);

  return {
    moment,
    fold,
    async state(given, projection, current) {
      const at = await moment(given);
      return at === undefined ? current.state : fold(projection, at);
    },
  };
}

function reachedPosition(given: string, head: Position): Position {
  const position = logPosition(given);
  if (position === undefined || position > head) {
    throw refusals.invalidRequest(`'as_of' is position ${given}, but the log ends at ${head}.`, 'as_of');
  }
  return position;
}

/** 0 for the position before every event. */
async function timeOfEvent(position: Position, log: EventLog): Promise<number> {
  if (position === START) return 0;
  for await (const { at } of log.readAll({ after: positionBefore(position), maxCount: 1 })) return Math.floor(at);
  return 0;
}
