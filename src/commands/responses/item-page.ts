/** One page of the items of a response or a conversation, for a client. */
import { refusals } from '../refusal.ts';
import { type ItemPage, type ItemPageQuery, pageInputItems, type StoredItem } from './input-items.ts';

/**
 * @param holder id of the response or the conversation
 * @throws Refusal (404) when `after` is not in the list
 */
export function itemPage(items: readonly StoredItem[], query: ItemPageQuery, holder: string): ItemPage {
  const { after } = query;
  if (after !== undefined && !items.some(({ id }) => id === after)) throw refusals.unknownAfter(after, holder);
  return pageInputItems(items, query);
}
