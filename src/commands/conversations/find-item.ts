/** Finds the item with an id among all items that one caller may see. */
import type { EventLog } from '../../events/log.ts';
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import type { ResponseArchive } from '../responses/archive.ts';
import type { FindItem, FoundItem } from '../responses/found-item.ts';
import { responseOfItem } from '../responses/item-ids.ts';
import { type ItemHolder, type ItemIndex, isIndexable } from '../responses/item-index.ts';
import { type Sight, sees } from '../visibility.ts';
import { itemsOf, placeholdersOf } from './conversation.ts';
import { findConversation } from './load-conversation.ts';

export interface ItemSources {
  readonly log: EventLog;
  readonly archive: ResponseArchive;
  readonly index: ItemIndex;
}

/** Maximum number of holders that are searched for an id; a real id has one or two. */
const MAX_HOLDERS = 16;

/** For one request: a holder is read only once. */
export function itemFinder(sight: Sight, { log, archive, index }: ItemSources): FindItem {
  const read = new Map<string, Promise<ReadonlyMap<string, FoundItem>>>();
  const itemsIn = (holder: ItemHolder) => {
    const key = `${holder.kind}/${holder.id}`;
    const known = read.get(key) ?? (holder.kind === 'response' ? ofResponse(holder.id) : ofConversation(holder.id));
    read.set(key, known);
    return known;
  };

  async function ofResponse(id: string): Promise<ReadonlyMap<string, FoundItem>> {
    const stored = await archive.find(id, sight);
    if (stored === undefined) return new Map();
    const { response, inputItems, native, provider } = stored;
    const output = Array.isArray(response.output) ? response.output.filter(isObject) : [];
    // The gateway gives the ids of the input, also when the response is the provider's.
    const placeholders = () => stored.placeholders;
    const ofOutput = { provider: native ? provider : undefined, placeholders };
    return new Map([...found(inputItems, { provider: undefined, placeholders }), ...found(output, ofOutput)]);
  }

  async function ofConversation(id: string): Promise<ReadonlyMap<string, FoundItem>> {
    const conversation = await findConversation(id, sight, log);
    if (conversation === undefined) return new Map();
    const placeholders = () => placeholdersOf(conversation);
    return found(itemsOf(conversation).values(), { provider: undefined, placeholders });
  }

  return async (id) => {
    const responseId = responseOfItem(id);
    if (responseId !== undefined) {
      const item = (await itemsIn({ kind: 'response', id: responseId })).get(id);
      if (item !== undefined) return item;
    }
    if (!isIndexable(id)) return undefined;
    let tried = 0;
    for await (const { kind, id: holderId, owner } of index.holdersOf(id)) {
      if (!sees(sight, owner)) continue;
      const item = (await itemsIn({ kind, id: holderId })).get(id);
      tried += 1;
      if (item !== undefined || tried === MAX_HOLDERS) return item;
    }
    return undefined;
  };
}

/** An item reference is not an item. */
function found(items: Iterable<JsonObject>, holder: Omit<FoundItem, 'item'>): ReadonlyMap<string, FoundItem> {
  const byId = new Map<string, FoundItem>();
  for (const item of items) {
    if (typeof item['id'] === 'string' && item['type'] !== 'item_reference') byId.set(item['id'], { ...holder, item });
  }
  return byId;
}
