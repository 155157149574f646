/** A read model as it was: the same fold, over the events up to a place in the log and no further. */
import type { Position, RecordedEvent } from '../events/event.ts';
import { CompiledFilter } from '../events/filter.ts';
import type { EventLog } from '../events/log.ts';
import { parsePosition, positionBefore } from '../events/sequence-position.ts';
import { type AdminJournal, adminJournal, familyOf, positionsUntil } from './admin-journal.ts';
import type { Projection } from './projection.ts';

/** Changes that are no further apart than this are read in one go: what lies between them costs less than a new start. */
const GAP = 256;

/**
 * The state at `until`, that position included. Only the changes that the journal knows of are read, so the projection
 * must be one of administrators' changes, and the journal must have come as far as `until`.
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
 * @param positions ascending; all that the journal has between the first and the last, of these families
 * @param families all of them, when it is left out
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

/** The positions as stretches that are read in one go. */
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
