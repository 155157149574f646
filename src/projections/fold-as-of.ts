/** A read model at an earlier position: the same fold, over the events up to that position. */
import { type Position, parsePosition, positionBefore, type RecordedEvent } from '../events/event.ts';
import { CompiledFilter, type EventLog } from '../events/log.ts';
import { type AdminJournal, adminJournal, familyOf, positionsUntil } from './admin-journal.ts';
import type { Projection } from './projection.ts';

/** Changes that are no further apart are read together: the events between them cost less than another read. */
const GAP = 256;

/**
 * The state at `until`, that position included. Only the changes in the journal are read, so the projection must be one
 * of administrators' changes, and the journal must have processed `until`.
 */
export async function foldAsOf<State>(
  projection: Projection<State>,
  log: Pick<EventLog, 'readAll'>,
  journal: AdminJournal,
  until: Position,
): Promise<State> {
  const families = new Set((projection.filter.types ?? []).map((type) => familyOf({ type })));
  const wanted = new CompiledFilter(projection.filter);
  let state = projection.initial();
  for await (const event of eventsAt(log, positionsUntil(journal, [...families], until), families)) {
    if (wanted.acceptsType(event.type)) state = projection.apply(state, event);
  }
  return state;
}

/**
 * The changes at these positions, in the log's order.
 * @param positions ascending; all positions in the journal between the first and the last, of these families
 * @param families default: all
 */
export async function* eventsAt(
  log: Pick<EventLog, 'readAll'>,
  positions: readonly Position[],
  families?: ReadonlySet<string>,
): AsyncGenerator<RecordedEvent> {
  const types = adminJournal.filter.types?.filter((type) => families?.has(familyOf({ type })) !== false);
  for (const { first, last } of runs(positions)) {
    for await (const event of log.readAll({ after: positionBefore(first), filter: { types } })) {
      yield event;
      // The last one passes the filter, so nothing behind it is read.
      if (event.position >= last) break;
    }
  }
}

/** The positions as ranges that are read together. */
function* runs(positions: readonly Position[]): Generator<{ first: Position; last: Position }> {
  let first: Position | undefined;
  let last: Position | undefined;
  for (const position of positions) {
    if (first !== undefined && last !== undefined && parsePosition(position) - parsePosition(last) > GAP) {
      yield { first, last };
      first = position;
    }
    first ??= position;
    last = position;
  }
  if (first !== undefined && last !== undefined) yield { first, last };
}
