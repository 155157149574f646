/** The index of items whose ids do not contain their location. Written in the same append as their holder. */
import { itemStored } from '../../events/catalogue/item.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import type { StreamWrite } from '../../events/log.ts';
import { contextFor, creatorFact, type Owner } from '../visibility.ts';
import { responseOfItem } from './item-ids.ts';

export interface ItemHolder {
  readonly kind: 'response' | 'conversation';
  readonly id: string;
}

export interface HeldItem extends ItemHolder {
  /** Owner of the holder. */
  readonly owner: Owner;
}

/** Implemented by a projection. */
export interface ItemIndex {
  /** All recorded holders of the item, the newest first. Some may have been deleted. */
  holdersOf(itemId: string): AsyncIterable<HeldItem>;
}

/** Ids come from providers and clients: an id that is not a plain token of reasonable length has no stream. */
export function isIndexable(itemId: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/.test(itemId);
}

/** @returns no write for an item whose id contains its holder */
export function itemWrites(itemIds: readonly string[], holder: HeldItem, by: EventContext): StreamWrite[] {
  const { kind, id, owner } = holder;
  const facts = { holder: kind, holderId: id, ...creatorFact(owner, by) };
  const event = itemStored.create(facts, contextFor(owner, by));
  return itemIds
    .filter((itemId) => isIndexable(itemId) && !(kind === 'response' && responseOfItem(itemId) === id))
    .map((itemId) => ({ stream: streamName('item', itemId), events: [event], expectedRevision: 'any' as const }));
}
