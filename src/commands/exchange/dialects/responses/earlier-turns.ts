/** What goes in front of the new input of a response, when its provider cannot look it up itself. */
import { historyReplayed } from '../../../../events/catalogue/exchange.ts';
import type { EventLog } from '../../../../events/log.ts';
import { isObject } from '../../../../json/is-object.ts';
import { loadConversation } from '../../../conversations/load-conversation.ts';
import { conversationNamed, inputOfTurn, type TurnInput } from '../../../conversations/turn.ts';
import { promptTokens } from '../../../model-request/token-estimate.ts';
import { refusals } from '../../../refusal.ts';
import type { ResponseArchive, StoredResponse } from '../../../responses/archive.ts';
import { loadChain } from '../../../responses/chain.ts';
import { mergeHistory } from '../../../responses/history.ts';
import { inputItems } from '../../../responses/input-items.ts';
import { previousResponseOf } from '../../../responses/previous-response.ts';
import type { PlanInput } from '../../dialect.ts';

export interface Stored {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
}

/**
 * The input with the turns before it; undefined when there are none, or when the provider knows them.
 * @throws Refusal when they are not found
 */
export async function withEarlierTurns(planned: PlanInput, stored: Stored): Promise<TurnInput | undefined> {
  const { json } = planned.asked;
  const conversation = conversationNamed(json);
  if (conversation !== undefined) return withConversation(conversation, planned, stored.log);
  const previous = previousResponseOf(planned.asked);
  return previous === null ? undefined : withChain(previous, planned, stored.archive);
}

async function withConversation(
  id: string,
  { asked, record, sight, ticket }: PlanInput,
  log: EventLog,
): Promise<TurnInput | undefined> {
  const { context } = record;
  const turn = inputOfTurn(await loadConversation(id, sight, log, 'conversation'), asked.json.input);
  if (turn.earlier === 0) return undefined;
  if (ticket.isMetered) ticket.expectEarlierTurns(promptTokens(turn.input.slice(0, turn.earlier)));
  record.note(historyReplayed.create({ responses: [], conversation: id, items: turn.input.length }, context));
  return turn;
}

async function withChain(
  previous: string,
  { asked, target, record, sight, ticket }: PlanInput,
  archive: ResponseArchive,
): Promise<TurnInput | undefined> {
  const { context } = record;
  if (target.provider.capabilities.responseLifecycle === 'yes') {
    const head = await archive.find(previous, sight);
    if (head === undefined && !(await archive.mayBeElsewhere(previous, sight))) {
      throw refusals.previousResponseNotFound(previous);
    }
    // A response of its own, or one this gateway never saw: the provider knows better. One that was translated is
    // known to nobody but us.
    if (head === undefined || (head.native && head.provider === target.provider.name)) {
      if (ticket.isMetered && head !== undefined) ticket.expectEarlierTurns(tokensBehind(head));
      return undefined;
    }
  }
  const chain = await loadChain(previous, sight, archive);
  const turns = chain.map(({ inputItems: input_items, response }) => ({ input_items, output: outputOf(response) }));
  const input = mergeHistory(turns, asked.json.input);
  const earlier = input.length - inputItems(asked.json.input).length;
  if (ticket.isMetered) ticket.expectEarlierTurns(promptTokens(input.slice(0, earlier)));
  const responses = chain.map(({ id }) => id);
  record.note(historyReplayed.create({ responses, items: input.length }, context));
  return { input, earlier };
}

/** What the provider is going to put in front: the turns before that response, what was said to it, and its answer. */
function tokensBehind({ response, inputItems: items }: StoredResponse): number {
  const { usage } = response;
  const reported = isObject(usage) ? usage['total_tokens'] : undefined;
  return typeof reported === 'number' ? reported : promptTokens(items) + promptTokens(response['output']);
}

function outputOf(response: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  return Array.isArray(response.output) ? response.output : [];
}
