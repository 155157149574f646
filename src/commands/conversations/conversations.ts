/** The operations of clients on conversations. Each is one command or one query. */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { conversationItemsAdded } from '../../events/catalogue/response.ts';
import type { EventContext, NewEvent } from '../../events/event.ts';
import type { EventLog, StreamWrite } from '../../events/log.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import { handleCommand } from '../handle-command.ts';
import type { CheckItems } from '../model-request/references.ts';
import { refusals, refusedInTranslation } from '../refusal.ts';
import type { Metadata } from '../request-check.ts';
import { checkRequest, parseJson } from '../request-check.ts';
import { type FindItem, withReferencedItems } from '../responses/archive.ts';
import { inputItemSchema } from '../responses/create-request.ts';
import {
  conversationItems,
  type ItemPage,
  type ItemPageQuery,
  itemPage,
  itemWrites,
  type StoredItem,
} from '../responses/input-items.ts';
import type { Owner, VisibilityScope } from '../visibility.ts';
import {
  type ConversationCommand,
  type ConversationState,
  conversationDecider,
  conversationStream,
  isConversationId,
  itemsOf,
  loadConversation,
  type OpenConversation,
} from './conversation.ts';

export interface ConversationDependencies {
  readonly log: EventLog;
  /** Finds the stored item that a caller refers to by id. */
  findItem(visibility: VisibilityScope): FindItem;
  readonly checkItems: CheckItems;
  /** Unix seconds. */
  now(): number;
}

/** The caller of a request. */
export interface Requester {
  readonly context: EventContext;
  readonly visibility: VisibilityScope;
}

/** The conversation that a request addresses, and its caller. */
export interface AtConversation extends Requester {
  readonly id: string;
}

/** @throws Refusal, like all functions of this file */
export async function createConversation(body: Buffer, by: Requester, deps: ConversationDependencies): Promise<object> {
  const { items, metadata } = readCreateConversation(body);
  const id = `conv_${randomBytes(16).toString('hex')}`;
  const state = await handle(
    { kind: 'create', id, createdAt: deps.now(), metadata, items: await withIds(items, by, deps), ...by },
    deps,
  );
  return conversationObject(id, state);
}

export async function retrieveConversation(
  { id, visibility }: AtConversation,
  deps: ConversationDependencies,
): Promise<object> {
  return conversationObject(id, await loadConversation(id, visibility, deps.log));
}

export async function updateConversation(
  at: AtConversation,
  body: Buffer,
  deps: ConversationDependencies,
): Promise<object> {
  const metadata = readUpdateConversation(body);
  return conversationObject(at.id, await handle({ kind: 'update metadata', ...at, metadata }, deps));
}

export async function deleteConversation(at: AtConversation, deps: ConversationDependencies): Promise<object> {
  await handle({ kind: 'delete', ...at }, deps);
  return { id: at.id, object: 'conversation.deleted', deleted: true };
}

export async function addItems(at: AtConversation, body: Buffer, deps: ConversationDependencies): Promise<ItemPage> {
  const items = await withIds(readAddItems(body), at, deps);
  await handle({ kind: 'add items', ...at, items }, deps);
  return {
    object: 'list',
    data: items,
    first_id: items[0]?.id ?? null,
    last_id: items.at(-1)?.id ?? null,
    has_more: false,
  };
}

export async function listItems(
  { id, visibility }: AtConversation,
  query: ItemPageQuery,
  deps: ConversationDependencies,
): Promise<ItemPage> {
  const items = itemsOf(await loadConversation(id, visibility, deps.log));
  return itemPage([...items.values()], query, id);
}

export async function retrieveItem(
  { id, visibility }: AtConversation,
  itemId: string,
  deps: ConversationDependencies,
): Promise<StoredItem> {
  const item = itemsOf(await loadConversation(id, visibility, deps.log)).get(itemId);
  if (item === undefined) throw refusals.conversationItemNotFound(itemId, id);
  return item;
}

export async function deleteItem(at: AtConversation, itemId: string, deps: ConversationDependencies): Promise<object> {
  return conversationObject(at.id, await handle({ kind: 'delete item', ...at, itemId }, deps));
}

/** The items in their stored form, with references replaced by the items that they name. */
async function withIds(
  items: readonly JsonObject[],
  { visibility }: Requester,
  deps: ConversationDependencies,
): Promise<StoredItem[]> {
  const find = deps.findItem(visibility);
  await deps.checkItems(items, visibility);
  const whole = await withReferencedItems(items, { find, member: 'items' });
  return conversationItems(whole, randomBytes(16).toString('hex'));
}

async function handle(command: ConversationCommand, { log }: ConversationDependencies): Promise<ConversationState> {
  const { id, context } = command;
  if (!isConversationId(id)) throw refusals.conversationNotFound(id);
  return handleCommand(conversationDecider, command, {
    log,
    stream: conversationStream(id),
    alsoWrite: (events, before) => {
      const { userPath, actor: createdBy } = context;
      const owner = before.status === 'open' ? before.owner : { userPath, createdBy };
      return events.flatMap((event) => indexed(event, id, owner, context));
    },
  });
}

/** Index entries for the items that an event adds. */
function indexed(event: NewEvent, id: string, owner: Owner, context: EventContext): StreamWrite[] {
  if (event.type !== conversationItemsAdded.type) return [];
  const { itemIds } = conversationItemsAdded.data.parse(event.data);
  return itemWrites(itemIds, { kind: 'conversation', id, owner }, context);
}

function conversationObject(id: string, state: ConversationState | OpenConversation): object {
  if (state.status !== 'open') throw refusals.conversationNotFound(id);
  return { id, object: 'conversation', created_at: state.createdAt, metadata: state.metadata };
}

/** Maximum number of items in one request. */
export const MAX_ITEMS_AT_ONCE = 20;

const metadata = z.record(z.string(), z.string());
const items = z.array(inputItemSchema);

export const createConversationSchema = z.looseObject({ items: items.nullish(), metadata: metadata.nullish() });
export const updateConversationSchema = z.looseObject({ metadata });
export const addItemsSchema = z.looseObject({ items });

type GivenItems = z.infer<typeof items>;

/** @param body the client's bytes; an empty body means `{}`. @throws Refusal */
export function readCreateConversation(body: Buffer): { items: GivenItems; metadata: Metadata } {
  const request = read(createConversationSchema, parsed(body), []);
  return { items: notTooMany(request.items ?? []), metadata: request.metadata ?? {} };
}

/** @throws Refusal */
export function readUpdateConversation(body: Buffer): Metadata {
  return read(updateConversationSchema, parsed(body), ['metadata']).metadata;
}

/** @throws Refusal */
export function readAddItems(body: Buffer): GivenItems {
  return notTooMany(read(addItemsSchema, parsed(body), ['items']).items);
}

function parsed(body: Buffer): unknown {
  return body.length === 0 ? {} : parseJson(body);
}

function read<Schema extends z.ZodType>(schema: Schema, json: unknown, required: readonly string[]): z.infer<Schema> {
  const checked = checkRequest(schema, json, required);
  if (!checked.ok) throw refusedInTranslation(checked.refusal);
  return checked.request;
}

function notTooMany(given: GivenItems): GivenItems {
  if (given.length <= MAX_ITEMS_AT_ONCE) return given;
  const message = `'items' may have at most ${MAX_ITEMS_AT_ONCE} entries, but it has ${given.length}.`;
  throw refusals.invalidRequest(message, 'items', 'array_above_max_length');
}
