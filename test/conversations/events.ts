/** Functions for specs of conversations: given these events, when this command, then those events. */

import {
  type ConversationCommand,
  type ConversationState,
  conversationDecider,
  itemsAdded,
} from '../../src/commands/conversations/conversation.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import type { StoredItem } from '../../src/commands/responses/input-items.ts';
import { everything, type VisibilityScope } from '../../src/commands/visibility.ts';
import { conversationCreated } from '../../src/events/catalogue/response.ts';
import type { EventContext, NewEvent, UserPath } from '../../src/events/event.ts';

export const id = `conv_${'0'.repeat(32)}`;
export const context: EventContext = { actor: 'master' };

/** The context of a caller at a user path. */
export function at(userPath: string): EventContext {
  return { actor: 'key:k1', userPath: userPath as UserPath };
}

export function message(itemId: string, text = 'hi'): StoredItem {
  return { id: itemId, type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
}

export function created(metadata: Record<string, string> = {}, by = context): NewEvent {
  return conversationCreated.create({ createdAt: 1_700_000_000, metadata }, by);
}

export function added(...itemIds: string[]): NewEvent {
  return itemsAdded(
    itemIds.map((itemId) => message(itemId)),
    {},
    context,
  );
}

export function stateAfter(...events: readonly NewEvent[]): ConversationState {
  return events.reduce<ConversationState>(
    (state, event) => conversationDecider.evolve(state, event),
    conversationDecider.initial,
  );
}

type Kind = ConversationCommand['kind'];
type Rest<K extends Kind> = Omit<Extract<ConversationCommand, { kind: K }>, 'kind' | 'id' | 'context' | 'visibility'>;

export function command<K extends Kind>(kind: K, rest: Rest<K>, by = context): ConversationCommand {
  const { userPath: path } = by;
  const visibility: VisibilityScope = path === undefined ? everything : { of: 'subtree', path };
  return { kind, id, context: by, visibility, ...rest } as unknown as ConversationCommand;
}

/** The decision: types and data of the events, or the code of the refusal. */
export function decided(events: readonly NewEvent[], ask: ConversationCommand) {
  const outcome = conversationDecider.decide(ask, stateAfter(...events));
  if (outcome instanceof Refusal) return { status: outcome.status, code: outcome.code, param: outcome.param };
  return outcome.map(({ type, data, body }) => ({
    type,
    ...data,
    ...(body === undefined ? {} : { items: JSON.parse(new TextDecoder().decode(body)) }),
  }));
}
