/** Where an item is held whose id does not tell it. Written in the same append as what holds it. */
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
  /** Of the holder. */
  readonly owner: Owner;
}

/** A projection implements it. */
export interface ItemIndex {
  /** Who was ever said to hold the item, the newest first. Some may not exist any more. */
  holdersOf(itemId: string): AsyncIterable<HeldItem>;
}

/** Ids come from providers and clients: what is not a plain token of reasonable length names no stream. */
export function isIndexable(itemId: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/.test(itemId);
}

/** @returns nothing for an item whose id says that the holder has it */
export function itemWrites(itemIds: readonly string[], holder: HeldItem, by: EventContext): StreamWrite[] {
  const { kind, id, owner } = holder;
  const facts = { holder: kind, holderId: id, ...creatorFact(owner, by) };
  const event = itemStored.create(facts, contextFor(owner, by));
  return itemIds
    .filter((itemId) => isIndexable(itemId) && !(kind === 'response' && responseOfItem(itemId) === id))
    .map((itemId) => ({ stream: streamName('item', itemId), events: [event], expectedRevision: 'any' as const }));
}
