import type { JsonObject } from './json.ts';

/** The members of a chat message that determine its place. */
interface Placed {
  readonly role: string;
  readonly tool_calls?: readonly JsonObject[];
  readonly tool_call_id?: string;
}

/**
 * Chat messages with each tool message directly after the assistant message that called the tool, where chat providers
 * require it. The Responses API allows other items in between. Everything else keeps its order; returns the same list
 * when nothing is out of place. A tool message whose call is missing, or comes later, stays at its place.
 */
export function outputsAfterCalls<Message extends Placed>(messages: readonly Message[]): readonly Message[] {
  if (isInPlace(messages)) return messages;
  /** The newest message with a call of this id: ids may be reused in a later turn. */
  const callers = new Map<unknown, Message[]>();
  const groups: Message[][] = [];
  for (const message of messages) {
    const caller = message.role === 'tool' ? callers.get(message.tool_call_id) : undefined;
    if (caller !== undefined) {
      caller.push(message);
      continue;
    }
    const group = [message];
    groups.push(group);
    for (const { id } of message.tool_calls ?? []) callers.set(id, group);
  }
  return groups.flat();
}

function isInPlace(messages: readonly Placed[]): boolean {
  let called: ReadonlySet<unknown> = new Set();
  for (const message of messages) {
    if (message.role !== 'tool') called = new Set(message.tool_calls?.map(({ id }) => id));
    else if (!called.has(message.tool_call_id)) return false;
  }
  return true;
}
