/** Stored responses, the chains that they form, and the items that requests refer to by id. */

import { type JsonObject, type Refused, refuse } from '../../providers/translate/json.ts';
import { isItemReference } from '../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';
import { Refusal, refusals } from '../refusal.ts';
import { type Owner, sees, seesEverything, type VisibilityScope } from '../visibility.ts';
import { isOwnCompaction, isOwnContent, openCompaction } from './compaction.ts';
import type { StoredItem } from './input-items.ts';

export interface StoredResponse extends Owner {
  readonly id: string;
  readonly status: 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
  readonly exchangeId: string;
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  /** Whether the provider stores it too, under the same id. */
  readonly native: boolean;
  readonly previousResponseId: string | null;
  readonly revision: bigint;
  readonly response: Readonly<Record<string, unknown>>;
  readonly inputItems: readonly StoredItem[];
  /** The values that guardrails kept from providers in this turn and the turns before. */
  readonly placeholders: readonly RecordedPlaceholder[];
}

/** Implemented by a projection. It does not check callers, so only `archiveOf` uses it. */
interface ResponseRecords {
  load(id: string): Promise<StoredResponse | undefined>;
  /** Whether it was stored here and then deleted. */
  wasDeleted(id: string): Promise<boolean>;
}

export interface ResponseArchive {
  /** Undefined when it was never stored, was deleted, or the caller may not see it. */
  find(id: string, visibility: VisibilityScope): Promise<StoredResponse | undefined>;
  /**
   * Whether a provider may be queried for a response that `find` did not find. A response that is not recorded here
   * has no known owner: only callers who see everything may query it. A deleted response does not exist anywhere.
   */
  mayBeOnlyAtProvider(id: string, visibility: VisibilityScope): Promise<boolean>;
}

export function archiveOf(records: ResponseRecords): ResponseArchive {
  return {
    async find(id, visibility) {
      const stored = await records.load(id);
      return stored !== undefined && sees(visibility, stored) ? stored : undefined;
    },
    mayBeOnlyAtProvider: async (id, visibility) => seesEverything(visibility) && !(await records.wasDeleted(id)),
  };
}

/** Loads the turns that `previous_response_id` refers to. */
const MAX_CHAIN_LENGTH = 256;

/**
 * The chain that ends with `previousId`, oldest first.
 * @throws Refusal when one of its responses is not stored, or the chain is longer than `MAX_CHAIN_LENGTH`
 */
export async function loadChain(
  previousId: string,
  visibility: VisibilityScope,
  archive: ResponseArchive,
): Promise<StoredResponse[]> {
  const chain: StoredResponse[] = [];
  const seen = new Set<string>();
  let next: string | null = previousId;
  while (next !== null && !seen.has(next)) {
    const stored = await archive.find(next, visibility);
    if (stored === undefined) throw refusals.previousResponseNotFound(previousId, next);
    if (chain.length === MAX_CHAIN_LENGTH) throw refusals.chainTooLong(MAX_CHAIN_LENGTH);
    chain.push(stored);
    seen.add(next);
    next = stored.previousResponseId;
  }
  return chain.reverse();
}

interface ReferenceOptions extends ReferencePlace {
  readonly find: FindItem;
  /** Whether the provider has the item, so that the reference is kept. */
  readonly stays?: (found: FoundItem | undefined) => boolean;
  /** Converts an inserted item. Default: the stored form. */
  readonly form?: (item: JsonObject) => JsonObject;
}

/**
 * The input as a model gets it: with referenced items, and with the compactions of the gateway as messages.
 * @throws Refusal 404 for an item that is not found, 400 for a compaction that cannot be read
 */
export async function resolvedInput(input: unknown, options: ReferenceOptions): Promise<unknown> {
  const { find, stays } = options;
  // No provider can read a compaction of the gateway, also one that is an item of its own response.
  const isLeft = stays && ((found: FoundItem | undefined) => !isOwnCompaction(found?.item) && stays(found));
  const whole = await withReferencedItems(input, { ...options, ...(isLeft && { stays: isLeft }) });
  return withOpenCompactions(whole, input, { find, earlier: options.earlier });
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

/** An item that a request refers to by its id. */
export interface FoundItem {
  readonly item: JsonObject;
  /** The provider that has the item under the same id; undefined when no provider has it. */
  readonly provider: string | undefined;
  /** Of the response or the conversation that holds the item. */
  placeholders(): readonly RecordedPlaceholder[];
}

/** Undefined when nothing that the caller may see contains such an item. */
export type FindItem = (id: string) => Promise<FoundItem | undefined>;

/** Finds the gateway's compactions by their content, and all other items with `find`. */
export function withCompactions(find: FindItem, visibility: VisibilityScope, sealers: SealerSource): FindItem {
  return async (id) => {
    if (!isOwnContent(id)) return find(id);
    const item = openCompaction(id, visibility, sealers);
    return item && { item, provider: undefined, placeholders: () => [] };
  };
}

/** @param given the items before references were replaced */
async function withOpenCompactions(
  input: unknown,
  given: unknown,
  { find, earlier = 0 }: Pick<ReferenceOptions, 'find' | 'earlier'>,
): Promise<unknown> {
  if (!Array.isArray(input) || !input.some(isOwnCompaction)) return input;
  const opened: unknown[] = [];
  for (const [index, item] of input.entries()) {
    const found = isOwnCompaction(item) ? await find(item.encrypted_content) : { item };
    if (found === undefined) {
      const member = Array.isArray(given) && isItemReference(given[index]) ? 'id' : 'encrypted_content';
      throw refusals.unreadableCompaction(index < earlier ? null : `input[${index - earlier}].${member}`);
    }
    opened.push(found.item);
  }
  return opened;
}

/** The ids to look up before `resolveItemReferences`; empty for almost every request. */
export function referencedItemIds(input: unknown): string[] {
  if (!Array.isArray(input)) return [];
  return input.filter(isItemReference).map((item) => item.id);
}

/** The place of the items in the request, for the message of a refusal. */
interface ReferencePlace {
  /** The member of the request; default `input`. */
  readonly member?: string;
  /** How many of the items are earlier turns instead of the client's new ones. */
  readonly earlier?: number;
}

/** The input with each reference replaced by its item. A missing item is a 404 and never left out. */
export function resolveItemReferences(
  input: readonly JsonObject[],
  find: (id: string) => JsonObject | undefined,
  { member = 'input', earlier = 0 }: ReferencePlace = {},
): { readonly ok: true; readonly input: JsonObject[] } | Refused {
  const resolved: JsonObject[] = [];
  for (const [index, item] of input.entries()) {
    const found = isItemReference(item) ? find(item.id) : item;
    if (found === undefined) {
      const param = index < earlier ? member : `${member}[${index - earlier}].id`;
      return refuse('item_not_found', param, `Item '${String(item['id'])}' was not found.`, 404);
    }
    resolved.push(found);
  }
  return { ok: true, input: resolved };
}
