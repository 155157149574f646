/** The turns behind `previous_response_id`. */
import type { JsonObject } from '../../providers/translate/json.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { ResponseArchive, StoredResponse } from './archive.ts';
import { referencedItemIds, resolveItemReferences } from './item-references.ts';

export const MAX_CHAIN_LENGTH = 256;

/**
 * The chain that ends with `previousId`, oldest first. An ancestor that is no longer stored ends the walk: history
 * begins after it.
 * @throws Refusal when the head is not stored, or the chain is longer than `MAX_CHAIN_LENGTH`
 */
export async function loadChain(previousId: string, archive: ResponseArchive): Promise<StoredResponse[]> {
  const chain: StoredResponse[] = [];
  const seen = new Set<string>();
  let next: string | null = previousId;
  while (next !== null && !seen.has(next)) {
    const stored = await archive.load(next);
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

/**
 * The input with every `item_reference` replaced by the item it names. A translated response derives the ids of its
 * items from its own, so the response is found without an index; an item of any other is not.
 * @throws Refusal (404) for an item that is not found
 */
export async function withReferencedItems(input: unknown, archive: ResponseArchive): Promise<unknown> {
  const ids = referencedItemIds(input);
  if (ids.length === 0 || !Array.isArray(input)) return input;
  const items = new Map<string, JsonObject>();
  for (const responseId of new Set(ids.map(responseOfItem))) {
    const stored = responseId === undefined ? undefined : await archive.load(responseId);
    const output = stored?.response.output;
    for (const item of Array.isArray(output) ? output : []) items.set(item.id, item);
  }
  const resolved = resolveItemReferences(input, (id) => items.get(id));
  if (!resolved.ok) throw new Refusal({ ...resolved.refusal, type: 'not_found_error' });
  return resolved.input;
}

/** `msg_<response>_<index>` → `resp_<response>`. */
function responseOfItem(itemId: string): string | undefined {
  const root = /^[a-z]+_([0-9a-f]{32})_\d+$/.exec(itemId)?.[1];
  return root === undefined ? undefined : `resp_${root}`;
}
