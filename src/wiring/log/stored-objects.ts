/** What clients store in the log and refer to by id: responses, items of conversations, files and batches. */
import { itemFinder } from '../../commands/conversations/conversation.ts';
import { trackedObjects } from '../../commands/provider-objects/tracked.ts';
import { archiveOf } from '../../commands/responses/archive.ts';
import type { Sight } from '../../commands/visibility.ts';
import type { EventLog } from '../../events/log.ts';
import { createItemIndex } from '../../projections/items.ts';
import { createResponseRecords } from '../../projections/responses.ts';
import { createTrackedRecords } from '../../projections/tracked-objects.ts';

export type StoredObjects = ReturnType<typeof storedObjects>;

/** They are read from the log when a request names them. */
export function storedObjects(log: EventLog) {
  const archive = archiveOf(createResponseRecords(log));
  const index = createItemIndex(log);
  return {
    archive,
    index,
    /** Finds items for one request of a caller with this sight. */
    findItem: (sight: Sight) => itemFinder(sight, { log, archive, index }),
    tracked: trackedObjects(createTrackedRecords(log)),
  };
}
