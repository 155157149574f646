/** Loads the turns that `previous_response_id` refers to. */
import type { JsonObject } from '../../providers/translate/json.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { Sight } from '../visibility.ts';
import type { ResponseArchive, StoredResponse } from './archive.ts';
import type { FindItem, FoundItem } from './found-item.ts';
import { type ReferencePlace, referencedItemIds, resolveItemReferences } from './item-references.ts';

export const MAX_CHAIN_LENGTH = 256;

/**
 * The chain that ends with `previousId`, oldest first. It begins after an ancestor that is no longer stored.
 * @throws Refusal when the head is not stored, or the chain is longer than `MAX_CHAIN_LENGTH`
 */
export async function loadChain(previousId: string, sight: Sight, archive: ResponseArchive): Promise<StoredResponse[]> {
  const chain: StoredResponse[] = [];
  const seen = new Set<string>();
  let next: string | null = previousId;
  while (next !== null && !seen.has(next)) {
    const stored = await archive.find(next, sight);
    if (stored === undefined) {
      if (chain.length === 0) throw refusals.previousResponseNotFound(previousId);
      break;
    }
    if (chain.length === MAX_CHAIN_LENGTH) throw refusals.chainTooLong(MAX_CHAIN_LENGTH);
    chain.push(stored);
    seen.add(next);
    next = stored.previousResponseId;
  }
  return chain.reverse();
}

export interface ReferenceOptions extends ReferencePlace {
  readonly find: FindItem;
  /** Whether the provider has the item, so that the reference is kept. */
  readonly stays?: (found: FoundItem | undefined) => boolean;
  /** Converts an inserted item. Default: the stored form. */
  readonly form?: (item: JsonObject) => JsonObject;
}

/**
 * The input with every `item_reference` replaced by its item; the same object when there is nothing to replace.
 * @throws Refusal (404) for an item that is not found
 */
export async function withReferencedItems(input: unknown, options: ReferenceOptions): Promise<unknown> {
  const { find, stays = () => false, form = (item) => item } = options;
  const ids = new Set(referencedItemIds(input));
  if (ids.size === 0 || !Array.isArray(input)) return input;
  const items = new Map<string, JsonObject>();
  let remaining = 0;
  for (const id of ids) {
    const found = await find(id);
    if (stays(found)) {
      items.set(id, { type: 'item_reference', id });
      remaining += 1;
    } else if (found !== undefined) items.set(id, form(found.item));
  }
  if (remaining === ids.size) return input;
  const resolved = resolveItemReferences(input, (id) => items.get(id), options);
  if (!resolved.ok) throw new Refusal({ ...resolved.refusal, type: 'not_found_error' });
  return resolved.input;
}
