/**
 * The turn that a response adds to its conversation: earlier items go in front of its input, and its input and output
 * are appended to the conversation, in the same append as the end of its exchange.
 */
import type { EventContext } from '../../events/event.ts';
import type { EventLog, StreamWrite } from '../../events/log.ts';
import { isObject } from '../../json/is-object.ts';
import { filled, type JsonObject } from '../../providers/translate/json.ts';
import { isItemReference } from '../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';
import { refusals } from '../refusal.ts';
import { type FindItem, referencedItemIds } from '../responses/archive.ts';
import { mergeHistory } from '../responses/history.ts';
import { conversationItems, inputItems, itemWrites, type StoredItem } from '../responses/input-items.ts';
import type { VisibilityScope } from '../visibility.ts';
import {
  conversationStream,
  findConversation,
  fullRefusal,
  itemsAdded,
  itemsOf,
  type OpenConversation,
  placeholdersAdded,
} from './conversation.ts';

/** The conversation that a request for a response names; undefined when it names none or in a wrong form. */
export function conversationIn(request: JsonObject): string | undefined {
  const given = request['conversation'];
  return filled(isObject(given) ? given['id'] : given);
}

/** Like `conversationIn`. @throws Refusal when the reference is malformed or not allowed */
export function conversationNamed(request: JsonObject): string | undefined {
  const given = request['conversation'];
  if (given === null || given === undefined) return undefined;
  const id = conversationIn(request);
  if (id === undefined) {
    throw refusals.invalidRequest("'conversation' must be the id of a conversation.", 'conversation', 'invalid_value');
  }
  if (filled(request['previous_response_id']) !== undefined) {
    const message = "'conversation' and 'previous_response_id' exclude each other: give only one of them.";
    throw refusals.invalidRequest(message, 'conversation', 'mutually_exclusive_parameters');
  }
  return id;
}

export interface TurnInput {
  readonly input: readonly JsonObject[];
  /** How many of the items are earlier turns. */
  readonly earlier: number;
}

/**
 * The items of the conversation, followed by the new input. A reference to an item that the conversation holds is
 * left out.
 * @throws Refusal when an item is given again, or the conversation is full
 */
export function inputOfTurn(conversation: OpenConversation, input: unknown): TurnInput {
  const held = itemsOf(conversation);
  const given = inputItems(input);
  const full = fullRefusal(held.size + given.length, conversation.bytes, 'conversation');
  if (full !== undefined) throw full;
  const seen = new Set(held.keys());
  const fresh = given.filter((item, index) => {
    const id = filled(item['id']);
    if (id === undefined) return true;
    if (isItemReference(item)) return !held.has(id);
    if (seen.has(id)) throw refusals.duplicateItem(id, `input[${index}].id`);
    seen.add(id);
    return true;
  });
  const merged = mergeHistory([{ input_items: [...held.values()], output: [] }], fresh);
  return { input: merged, earlier: held.size };
}

export interface EndedTurn {
  readonly conversationId: string;
  readonly exchangeId: string;
  readonly responseId: string;
  /** As the client sent it. */
  readonly input: unknown;
  readonly output: readonly unknown[];
  readonly context: EventContext;
  readonly visibility: VisibilityScope;
  /** The values that guardrails kept from the provider, without those of earlier turns. */
  readonly placeholders?: readonly RecordedPlaceholder[] | undefined;
}

/** The writes to append with the end of a successful turn; none when its conversation was deleted. */
export async function turnWrites(turn: EndedTurn, log: EventLog, find: FindItem): Promise<StreamWrite[]> {
  const { conversationId, exchangeId, responseId, input, output, context, visibility, placeholders = [] } = turn;
  const conversation = await findConversation(conversationId, visibility, log);
  if (conversation === undefined) return [];
  const root = exchangeId.replaceAll('-', '');
  const given = await inFull(inputItems(input), conversation, find);
  const items = [...conversationItems(given, root), ...outputItems(output, root)];
  if (items.length === 0) return [];
  const added = itemsAdded(items, { responseId, exchangeId }, context);
  const events = placeholders.length === 0 ? [added] : [added, placeholdersAdded(placeholders, context)];
  const ids = items.map(({ id }) => id);
  return [
    // Turns may end at the same time; each is appended behind the one before, whichever request came first.
    { stream: conversationStream(conversationId), events, expectedRevision: 'any' },
    ...itemWrites(ids, { kind: 'conversation', id: conversationId, owner: conversation.owner }, context),
  ];
}

/**
 * The items, with references replaced by the items that they name. References to items that the conversation already
 * holds are left out; so are references whose item has been deleted meanwhile, although the model received it.
 */
async function inFull(
  items: readonly JsonObject[],
  conversation: OpenConversation,
  find: FindItem,
): Promise<readonly JsonObject[]> {
  if (referencedItemIds(items).length === 0) return items;
  const held = itemsOf(conversation);
  const all: JsonObject[] = [];
  for (const item of items) {
    const id = isItemReference(item) ? item.id : undefined;
    const whole = id === undefined ? item : held.has(id) ? undefined : (await find(id))?.item;
    if (whole !== undefined) all.push(whole);
  }
  return all;
}

function outputItems(output: readonly unknown[], root: string): StoredItem[] {
  return output.filter(isObject).map((item, index) => {
    const type = filled(item['type']) ?? 'message';
    return { ...item, id: filled(item['id']) ?? `item_${root}_${index}`, type };
  });
}
