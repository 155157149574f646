import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';

/**
 * Whether an input item only references an earlier one: `{"type": "item_reference", "id": …}`. The type may be omitted;
 * an item with more members than an id is then not a reference ("Responses API: item reference").
 */
export function isItemReference(item: unknown): item is JsonObject & { readonly id: string } {
  if (!isObject(item) || typeof item['id'] !== 'string') return false;
  const type = filled(item['type']);
  if (type !== undefined) return type === 'item_reference';
  return Object.entries(item).every(([member, value]) => member === 'id' || value === null || value === '');
}

/** Whether an item consists of its id alone, so that a provider that keeps responses looks it up. */
export function isNamedOnly(item: unknown): item is JsonObject & { readonly id: string } {
  if (isItemReference(item)) return true;
  if (!isObject(item) || typeof item['id'] !== 'string') return false;
  const { type, result, encrypted_content: encrypted } = item;
  return (
    (type === 'image_generation_call' && filled(result) === undefined) ||
    (type === 'reasoning' && filled(encrypted) === undefined)
  );
}
