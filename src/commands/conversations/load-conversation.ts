/** Loads a conversation, as one caller may see it, from its stream: every acknowledged change is included. */
import { streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { loadState } from '../handle-command.ts';
import { refusals } from '../refusal.ts';
import { type Sight, sees } from '../visibility.ts';
import { conversationDecider, type OpenConversation } from './conversation.ts';

export function isConversationId(id: string): boolean {
  return /^conv_[0-9a-f]{32}$/.test(id);
}

export function conversationStream(id: string) {
  return streamName('conversation', id);
}

/** Undefined when it does not exist, was deleted, or belongs to other callers. */
export async function findConversation(id: string, sight: Sight, log: EventLog): Promise<OpenConversation | undefined> {
  if (!isConversationId(id)) return undefined;
  const { state } = await loadState(conversationDecider, conversationStream(id), log);
  return state.status === 'open' && sees(sight, state.owner) ? state : undefined;
}

/** @throws Refusal (404) */
export async function loadConversation(
  id: string,
  sight: Sight,
  log: EventLog,
  param: string | null = null,
): Promise<OpenConversation> {
  const conversation = await findConversation(id, sight, log);
  if (conversation === undefined) throw refusals.conversationNotFound(id, param);
  return conversation;
}
