/** One page of the items of a response or a conversation, for a client. */
import { refusals, refusedInTranslation } from '../refusal.ts';
import { type ItemPage, type ItemPageQuery, pageInputItems, type StoredItem } from './input-items.ts';

/** Checks everything in a query that can be checked without the list. @throws Refusal (400) */
export function checkItemQuery({ limit, order }: ItemPageQuery): void {
  const page = pageInputItems([], { limit, order });
  if (!page.ok) throw refusedInTranslation(page.refusal);
}

/**
 * @param holder id of what the items are of
 * @throws Refusal (400), (404) when `after` is not in the list
 */
export function itemPage(items: readonly StoredItem[], query: ItemPageQuery, holder: string): ItemPage {
  const listed = pageInputItems(items, query);
  if (!listed.ok) throw refusedInTranslation(listed.refusal);
  const { after } = query;
  if (after !== undefined && after !== '' && !items.some(({ id }) => id === after)) {
    throw refusals.unknownAfter(after, holder);
  }
  return listed.page;
}
