/** What clients store in the log and refer to by id: responses, items of conversations, files and batches. */
import { itemFinder } from '../../commands/conversations/find-item.ts';
import { type TrackedObjects, trackedObjects } from '../../commands/provider-objects/tracked.ts';
import { archiveOf, type ResponseArchive } from '../../commands/responses/archive.ts';
import type { FindItem } from '../../commands/responses/found-item.ts';
import type { Sight } from '../../commands/visibility.ts';
import type { EventLog } from '../../events/log.ts';
import { createItemIndex } from '../../projections/items.ts';
import { createResponseRecords } from '../../projections/responses.ts';
import { createTrackedRecords } from '../../projections/tracked-objects.ts';

export interface StoredObjects {
  readonly archive: ResponseArchive;
  /** Finds items for one request of a caller with this sight. */
  findItem(sight: Sight): FindItem;
  readonly tracked: TrackedObjects;
}

/** They are read from the log when a request names them. */
export function storedObjects(log: EventLog): StoredObjects {
  const archive = archiveOf(createResponseRecords(log));
  const index = createItemIndex(log);
  return {
    archive,
    findItem: (sight) => itemFinder(sight, { log, archive, index }),
    tracked: trackedObjects(createTrackedRecords(log)),
  };
}
