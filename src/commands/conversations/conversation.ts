/** Commands and events of a conversation; loading one, and finding an item by its id. */
import { z } from 'zod';
import {
  conversationCreated,
  conversationDeleted,
  conversationItemDeleted,
  conversationItemsAdded,
  conversationMetadataUpdated,
  conversationPlaceholdersAssigned,
} from '../../events/catalogue/response.ts';
import { type EventContext, type NewEvent, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import type { ItemIndex } from '../../projections/responses.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';
import { type DecidedEvent, type Decider, loadState } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { type Metadata, mergedMetadata, metadataRefusal } from '../request-check.ts';
import type { FindItem, FoundItem, ResponseArchive } from '../responses/archive.ts';
import { type ItemHolder, isIndexable, responseOfItem, type StoredItem } from '../responses/input-items.ts';
import { type Owner, ownerOf, sees, type VisibilityScope } from '../visibility.ts';

/** A conversation that has reached either limit takes no more items. The turn that reaches it is still stored whole. */
export const MAX_CONVERSATION_ITEMS = 10_000;
export const MAX_CONVERSATION_BYTES = 64 * 1024 * 1024;

export type ConversationState =
  | { readonly status: 'absent' }
  | OpenConversation
  /** Final: later events change nothing. */
  | { readonly status: 'deleted' };

export interface OpenConversation {
  readonly status: 'open';
  /** Unix seconds. */
  readonly createdAt: number;
  readonly metadata: Metadata;
  readonly owner: Owner;
  /** The newest change, linked to all earlier ones. `itemsOf` builds the items, for the few callers that need them. */
  readonly changes: Change | undefined;
  /** Bytes of all items ever added, which have to be read to load the conversation. */
  readonly bytes: number;
  /** JSON of the values that guardrails kept from providers, one for each turn: `placeholdersOf` parses it. */
  readonly placeholders?: readonly Uint8Array[];
}

interface Change {
  readonly before: Change | undefined;
  readonly what: { readonly added: Uint8Array } | { readonly deleted: string };
}

export type ConversationCommand = {
  readonly id: string;
  readonly context: EventContext;
  readonly visibility: VisibilityScope;
} & (
  | {
      readonly kind: 'create';
      /** Unix seconds. */
      readonly createdAt: number;
      readonly metadata: Metadata;
      readonly items: readonly StoredItem[];
    }
  | { readonly kind: 'add items'; readonly items: readonly StoredItem[] }
  | { readonly kind: 'delete item'; readonly itemId: string }
  | { readonly kind: 'update metadata'; readonly metadata: Metadata }
  | { readonly kind: 'delete' }
);

export const conversationDecider: Decider<ConversationState, ConversationCommand> = {
  initial: { status: 'absent' },
  dependsOn: 'its stream',
  decide,
  evolve,
};

function decide(command: ConversationCommand, state: ConversationState): readonly NewEvent[] | Refusal {
  const { id, context } = command;
  if (command.kind === 'create') return created(command, state);
  if (state.status !== 'open' || !sees(command.visibility, state.owner)) return refusals.conversationNotFound(id);
  switch (command.kind) {
    case 'add items':
      return added(command.items, state, context);
    case 'delete item': {
      const { itemId } = command;
      if (!itemsOf(state).has(itemId)) return refusals.conversationItemNotFound(itemId, id);
      return [conversationItemDeleted.create({ itemId }, context)];
    }
    case 'update metadata': {
      const metadata = mergedMetadata(state.metadata, command.metadata);
      return metadataRefusal(metadata) ?? [conversationMetadataUpdated.create({ metadata }, context)];
    }
    case 'delete':
      return [conversationDeleted.create({}, context)];
  }
}

function created(
  { id, createdAt, metadata, items, context }: Extract<ConversationCommand, { kind: 'create' }>,
  state: ConversationState,
): readonly NewEvent[] | Refusal {
  if (state.status !== 'absent') return refusals.changedMeanwhile(id);
  const wrong = metadataRefusal(metadata) ?? duplicateAmong(items, new Map());
  if (wrong !== undefined) return wrong;
  const events: NewEvent[] = [conversationCreated.create({ createdAt, metadata }, context)];
  if (items.length > 0) events.push(itemsAdded(items, {}, context));
  return events;
}

function added(
  items: readonly StoredItem[],
  state: OpenConversation,
  context: EventContext,
): readonly NewEvent[] | Refusal {
  const held = itemsOf(state);
  const wrong = fullRefusal(held.size + items.length, state.bytes, 'items') ?? duplicateAmong(items, held);
  if (wrong !== undefined) return wrong;
  return items.length === 0 ? [] : [itemsAdded(items, {}, context)];
}

/** Why a conversation with this number of items and bytes takes no more; undefined while it does. */
export function fullRefusal(items: number, bytes: number, param: string): Refusal | undefined {
  if (items > MAX_CONVERSATION_ITEMS) {
    return refusals.conversationFull(`${items} items would be more than ${MAX_CONVERSATION_ITEMS}.`, param);
  }
  if (bytes <= MAX_CONVERSATION_BYTES) return undefined;
  return refusals.conversationFull(`it holds more than ${MAX_CONVERSATION_BYTES} bytes.`, param);
}

function duplicateAmong(items: readonly StoredItem[], held: ReadonlyMap<string, unknown>): Refusal | undefined {
  const seen = new Set<string>();
  for (const { id } of items) {
    if (held.has(id) || seen.has(id)) return refusals.duplicateItem(id, 'items');
    seen.add(id);
  }
  return undefined;
}

/** The event that appends items to an open conversation. */
export function itemsAdded(
  items: readonly StoredItem[],
  origin: { readonly responseId?: string; readonly exchangeId?: string },
  context: EventContext,
): NewEvent {
  const itemIds = items.map(({ id }) => id);
  return conversationItemsAdded.create({ itemIds, ...origin }, context, Buffer.from(JSON.stringify(items)));
}

function evolve(state: ConversationState, event: DecidedEvent): ConversationState {
  if (event.type === conversationCreated.type && state.status === 'absent') {
    const { createdAt, metadata } = conversationCreated.data.parse(event.data);
    return { status: 'open', createdAt, metadata, owner: ownerOf(event), changes: undefined, bytes: 0 };
  }
  // A turn that was running when its conversation was deleted is recorded after the deletion.
  if (state.status !== 'open') return state;
  const { changes: before, bytes } = state;
  switch (event.type) {
    case conversationItemsAdded.type: {
      const added = event.body ?? new Uint8Array();
      return { ...state, changes: { before, what: { added } }, bytes: bytes + added.length };
    }
    case conversationItemDeleted.type: {
      const { itemId: deleted } = conversationItemDeleted.data.parse(event.data);
      return { ...state, changes: { before, what: { deleted } } };
    }
    case conversationMetadataUpdated.type:
      return { ...state, metadata: conversationMetadataUpdated.data.parse(event.data).metadata };
    case conversationPlaceholdersAssigned.type:
      return { ...state, placeholders: [...(state.placeholders ?? []), event.body ?? new Uint8Array()] };
    case conversationDeleted.type:
      return { status: 'deleted' };
    default:
      return state;
  }
}

const addedItems = z.array(z.looseObject({ id: z.string(), type: z.string() }));

/**
 * The items by id, oldest first. Two simultaneous turns may add the same item: the first one counts.
 * @throws when the stored bytes are damaged
 */
export function itemsOf({ changes }: OpenConversation): ReadonlyMap<string, StoredItem> {
  const inOrder: Change[] = [];
  for (let change = changes; change !== undefined; change = change.before) inOrder.push(change);
  const items = new Map<string, StoredItem>();
  for (const { what } of inOrder.reverse()) {
    if ('deleted' in what) {
      items.delete(what.deleted);
      continue;
    }
    for (const item of addedItems.parse(parseExactly(new TextDecoder().decode(what.added)))) {
      if (!items.has(item.id)) items.set(item.id, item);
    }
  }
  return items;
}

const assignedPlaceholders = z.array(z.object({ placeholder: z.string(), value: z.string() }));

/** The values that guardrails kept from providers in the turns of the conversation. */
export function placeholdersOf({ placeholders = [] }: OpenConversation): readonly RecordedPlaceholder[] {
  return placeholders.flatMap((body) => assignedPlaceholders.parse(parseExactly(new TextDecoder().decode(body))));
}

/** The event that adds the placeholders of a turn to an open conversation. */
export function placeholdersAdded(placeholders: readonly RecordedPlaceholder[], context: EventContext): NewEvent {
  const body = Buffer.from(JSON.stringify(placeholders));
  return conversationPlaceholdersAssigned.create({ count: placeholders.length }, context, body);
}

/** Loads a conversation, as one caller may see it, from its stream: every acknowledged change is included. */
export function isConversationId(id: string): boolean {
  return /^conv_[0-9a-f]{32}$/.test(id);
}

export function conversationStream(id: string) {
  return streamName('conversation', id);
}

/** Undefined when it does not exist, was deleted, or belongs to other callers. */
export async function findConversation(
  id: string,
  visibility: VisibilityScope,
  log: EventLog,
): Promise<OpenConversation | undefined> {
  if (!isConversationId(id)) return undefined;
  const { state } = await loadState(conversationDecider, conversationStream(id), log);
  return state.status === 'open' && sees(visibility, state.owner) ? state : undefined;
}

/** @throws Refusal (404) */
export async function loadConversation(
  id: string,
  visibility: VisibilityScope,
  log: EventLog,
  param: string | null = null,
): Promise<OpenConversation> {
  const conversation = await findConversation(id, visibility, log);
  if (conversation === undefined) throw refusals.conversationNotFound(id, param);
  return conversation;
}

/** Finds the item with an id among all items that one caller may see. */
interface ItemSources {
  readonly log: EventLog;
  readonly archive: ResponseArchive;
  readonly index: ItemIndex;
}

/** Maximum number of holders that are searched for an id; a real id has one or two. */
const MAX_HOLDERS = 16;

/** For one request: a holder is read only once. */
export function itemFinder(visibility: VisibilityScope, { log, archive, index }: ItemSources): FindItem {
  const read = new Map<string, Promise<ReadonlyMap<string, FoundItem>>>();
  const itemsIn = (holder: ItemHolder) => {
    const key = `${holder.kind}/${holder.id}`;
    const known = read.get(key) ?? (holder.kind === 'response' ? ofResponse(holder.id) : ofConversation(holder.id));
    read.set(key, known);
    return known;
  };

  async function ofResponse(id: string): Promise<ReadonlyMap<string, FoundItem>> {
    const stored = await archive.find(id, visibility);
    if (stored === undefined) return new Map();
    const { response, inputItems, native, provider } = stored;
    const output = Array.isArray(response.output) ? response.output.filter(isObject) : [];
    // The gateway gives the ids of the input, also when the response is the provider's.
    const placeholders = () => stored.placeholders;
    const ofOutput = { provider: native ? provider : undefined, placeholders };
    return new Map([...found(inputItems, { provider: undefined, placeholders }), ...found(output, ofOutput)]);
  }

  async function ofConversation(id: string): Promise<ReadonlyMap<string, FoundItem>> {
    const conversation = await findConversation(id, visibility, log);
    if (conversation === undefined) return new Map();
    const placeholders = () => placeholdersOf(conversation);
    return found(itemsOf(conversation).values(), { provider: undefined, placeholders });
  }

  return async (id) => {
    const responseId = responseOfItem(id);
    if (responseId !== undefined) {
      const item = (await itemsIn({ kind: 'response', id: responseId })).get(id);
      if (item !== undefined) return item;
    }
    if (!isIndexable(id)) return undefined;
    let tried = 0;
    for await (const { kind, id: holderId, owner } of index.holdersOf(id)) {
      if (!sees(visibility, owner)) continue;
      const item = (await itemsIn({ kind, id: holderId })).get(id);
      tried += 1;
      if (item !== undefined || tried === MAX_HOLDERS) return item;
    }
    return undefined;
  };
}

/** An item reference is not an item. */
function found(items: Iterable<JsonObject>, holder: Omit<FoundItem, 'item'>): ReadonlyMap<string, FoundItem> {
  const byId = new Map<string, FoundItem>();
  for (const item of items) {
    if (typeof item['id'] === 'string' && item['type'] !== 'item_reference') byId.set(item['id'], { ...holder, item });
  }
  return byId;
}
