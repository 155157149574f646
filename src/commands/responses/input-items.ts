/** The input of a response as it is stored and listed: OpenAI's item form, each item with an id. */
import { createHash } from 'node:crypto';
import { itemStored } from '../../events/catalogue/response.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import type { StreamWrite } from '../../events/log.ts';
import { isObject } from '../../json/is-object.ts';
import { filled, type JsonObject } from '../../providers/translate/json.ts';
import { isItemReference } from '../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import { refusals } from '../refusal.ts';
import { contextFor, creatorFact, type Owner } from '../visibility.ts';

/** An input or output item of a response: an object with an id of its own. */
export interface StoredItem extends JsonObject {
  readonly id: string;
  readonly type: string;
}

/**
 * The client's items in one form: a string becomes a user message, parts get their Responses names, and an item
 * without an id gets one that is the same at every read.
 */
export function storedInputItems(input: unknown, responseId: string): StoredItem[] {
  return inputItems(input).map((item, index) => storedItem(item, (type) => itemId(item, type, responseId, index)));
}

/**
 * The items in the form of a conversation: as above, except that no id is derived from a call id, since a later turn
 * may have the same call id.
 * @param root 32 hexadecimal digits that no other items use
 */
export function conversationItems(input: unknown, root: string): StoredItem[] {
  return inputItems(input).map((item, index) => {
    const stored = storedItem(item, (type) => inputItemId(KINDS[type] ?? 'msg', root, index));
    return stored.type === 'message' ? { status: 'completed', ...stored } : stored;
  });
}

const KINDS: Readonly<Record<string, string>> = { function_call: 'fc', function_call_output: 'fco', reasoning: 'rs' };

/** The input as a list of items; a string is one user message. */
export function inputItems(input: unknown): readonly JsonObject[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return Array.isArray(input) ? input.filter(isObject) : [];
}

function storedItem(item: JsonObject, newId: (type: string) => string): StoredItem {
  if (isItemReference(item)) return { type: 'item_reference', id: item.id };
  const type = filled(item['type']) ?? 'message';
  const id = filled(item['id']) ?? newId(type);
  if (type !== 'message') return { ...item, id, type };
  const { content } = item;
  const role = filled(item['role']) ?? 'user';
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return { ...item, id, type, role, content: Array.isArray(parts) ? parts.map((part) => storedPart(part, role)) : [] };
}

function itemId(item: JsonObject, type: string, responseId: string, index: number): string {
  const callId = filled(item['call_id']);
  if (callId !== undefined && type === 'function_call') return `fc_${callId}`;
  if (callId !== undefined && type === 'function_call_output') return `fco_${callId}`;
  const root = rootOf(responseId);
  return root === undefined ? `msg_${uuidFromName(`${responseId}/${type}/${index}`)}` : inputItemId('msg', root, index);
}

function storedPart(part: unknown, role: string): unknown {
  if (!isObject(part)) return part;
  if (part['type'] === 'text') return { ...part, type: role === 'assistant' ? 'output_text' : 'input_text' };
  if (part['type'] !== 'image_url' && part['type'] !== 'input_image') return part;
  const image = part['image_url'];
  if (!isObject(image)) return { ...part, type: 'input_image' };
  const { url, ...rest } = image;
  return { ...part, ...rest, type: 'input_image', image_url: url };
}

/** Namespace of the names of the gateway's input items. */
const namespace = Buffer.from('5c1a9d0e7f3b4e21a8669b2df04c7e15', 'hex');

/** RFC 9562 §5.5: a UUID of version 5, the same for the same name. */
export function uuidFromName(name: string): string {
  const bytes = createHash('sha1').update(namespace).update(name).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

export interface ItemPage {
  readonly object: 'list';
  readonly data: readonly StoredItem[];
  /** Null when the page is empty. */
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
}

export interface ItemPageQuery {
  /** Maximum number of items on the page. */
  readonly limit: number;
  /** `desc`: the last item first. */
  readonly order: 'asc' | 'desc';
  /** Id of the item before the page; an unknown one gives an empty page. */
  readonly after?: string | undefined;
}

export function pageInputItems(items: readonly StoredItem[], { limit, order, after }: ItemPageQuery): ItemPage {
  const ordered = order === 'asc' ? items : items.toReversed();
  const start = after === undefined ? 0 : placeAfter(ordered, after);
  const data = ordered.slice(start, start + limit);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + data.length < ordered.length,
  };
}

function placeAfter(items: readonly StoredItem[], id: string): number {
  const place = items.findIndex((item) => item.id === id);
  return place === -1 ? items.length : place + 1;
}

// Ids of items that contain their location: `<kind>_<32 hex>_<n>` is the n-th output item of the translated response
// `resp_<32 hex>`, `<kind>_<32 hex>_i<n>` the n-th item of its input. Such items are found without an index.

/** The id of an input item that the client sent without one. @param root 32 hexadecimal digits */
function inputItemId(kind: string, root: string, index: number): string {
  return `${kind}_${root}_i${index}`;
}

/** The 32 hexadecimal digits in the id of a response that the gateway generated; undefined for any other id. */
function rootOf(responseId: string): string | undefined {
  return /^resp_([0-9a-f]{32})$/.exec(responseId)?.[1];
}

/** The id of the response that an item's id contains; undefined when it contains none. */
export function responseOfItem(itemId: string): string | undefined {
  const root = /^[a-z]+_([0-9a-f]{32})_i?\d+(?:_[A-Za-z0-9_-]{22})?$/.exec(itemId)?.[1];
  return root === undefined ? undefined : `resp_${root}`;
}

/** The index of items whose ids do not contain their location. Written in the same append as their holder. */
export interface ItemHolder {
  readonly kind: 'response' | 'conversation';
  readonly id: string;
}

/** Ids come from providers and clients: an id that is not a plain token of reasonable length has no stream. */
export function isIndexable(itemId: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}$/.test(itemId);
}

/** @returns no write for an item whose id contains its holder */
export function itemWrites(
  itemIds: readonly string[],
  holder: ItemHolder & { readonly owner: Owner },
  by: EventContext,
): StreamWrite[] {
  const { kind, id, owner } = holder;
  const facts = { holder: kind, holderId: id, ...creatorFact(owner, by) };
  const event = itemStored.create(facts, contextFor(owner, by));
  return itemIds
    .filter((itemId) => isIndexable(itemId) && !(kind === 'response' && responseOfItem(itemId) === id))
    .map((itemId) => ({ stream: streamName('item', itemId), events: [event], expectedRevision: 'any' as const }));
}

/**
 * @param holder id of the response or the conversation
 * @throws Refusal (404) when `after` is not in the list
 */
export function itemPage(items: readonly StoredItem[], query: ItemPageQuery, holder: string): ItemPage {
  const { after } = query;
  if (after !== undefined && !items.some(({ id }) => id === after)) throw refusals.unknownAfter(after, holder);
  return pageInputItems(items, query);
}
