/** The turns behind `previous_response_id`. */
import { refusals } from '../refusal.ts';
import type { ResponseArchive, StoredResponse } from './archive.ts';

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
