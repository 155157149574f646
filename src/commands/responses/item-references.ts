/** References to items of earlier responses. */
import type { JsonObject } from '../../providers/translate/json.ts';
import { type Refused, refuse } from '../../providers/translate/refusal.ts';
import { isItemReference } from '../../providers/translate/responses-to-chat/item-reference.ts';

/** The ids to look up before `resolveItemReferences`; empty for almost every request. */
export function referencedItemIds(input: unknown): string[] {
  if (!Array.isArray(input)) return [];
  return input.filter(isItemReference).map((item) => item.id);
}

/** The place of the items in the request, for the message of a refusal. */
export interface ReferencePlace {
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
