/** The index of items, read from its own streams: `item-<id>` names the holder as soon as that event is appended. */
import { itemStored } from '../events/catalogue/response.ts';
import { type Actor, streamName, type UserPath } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA } from './known-event.ts';

export interface HeldItem {
  readonly kind: 'response' | 'conversation';
  readonly id: string;
  /** Of the request that stored the item. */
  readonly requestId: string | undefined;
  /** Of the holder. */
  readonly owner: { readonly userPath: UserPath | undefined; readonly createdBy: Actor };
}

export interface ItemIndex {
  /** All recorded holders of the item, the newest first. Some may have been deleted. */
  holdersOf(itemId: string): AsyncIterable<HeldItem>;
}

/** Most events read in search of a holder, so that storing the same id many times cannot slow down readers. */
const MAX_EVENTS = 1024;

export function createItemIndex(log: EventLog): ItemIndex {
  return {
    async *holdersOf(itemId) {
      const stream = streamName('item', itemId);
      for await (const event of log.readStream(stream, { direction: 'backwards', maxCount: MAX_EVENTS })) {
        if (!isA(event, itemStored)) continue;
        const { holder, holderId, createdBy = event.context.actor } = event.data;
        const { requestId } = event.context;
        yield { kind: holder, id: holderId, requestId, owner: { userPath: event.context.userPath, createdBy } };
      }
    },
  };
}
