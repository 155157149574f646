/** The turns before the new input of a response, for providers that cannot look them up. */
import { historyReplayed } from '../../../../events/catalogue/exchange.ts';
import type { EventLog } from '../../../../events/log.ts';
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { contentOf } from '../../../admission/cost-bound.ts';
import { loadConversation, placeholdersOf } from '../../../conversations/conversation.ts';
import { conversationNamed, inputOfTurn, type TurnInput } from '../../../conversations/turn.ts';
import type { EarlierTokens } from '../../../model-request/admission.ts';
import { promptTokens } from '../../../model-request/usage.ts';
import { refusals } from '../../../refusal.ts';
import { loadChain, type ResponseArchive, type StoredResponse } from '../../../responses/archive.ts';
import { previousResponseOf } from '../../../responses/create-request.ts';
import { mergeHistory } from '../../../responses/history.ts';
import { inputItems } from '../../../responses/input-items.ts';
import type { VisibilityScope } from '../../../visibility.ts';
import type { EarlierTurns, PlanInput } from '../../dialect.ts';

/** Another model may make more tokens of the same turns: up to one of each byte. */
const BYTES_PER_TOKEN = 4;

export interface Stored {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
}

/** Undefined when the request continues nothing. */
export function loadEarlierTurns(
  { parsedRequest, visibility }: Pick<PlanInput, 'parsedRequest' | 'visibility'>,
  stored: Stored,
): Promise<EarlierTurns> | undefined {
  const conversation = conversationNamed(parsedRequest.json);
  if (conversation !== undefined)
    return conversationTurns(conversation, parsedRequest.json.input, visibility, stored.log);
  const previous = previousResponseOf(parsedRequest);
  return previous === null ? undefined : responseTurns(previous, visibility, stored.archive);
}

/** @throws Refusal (404) */
async function conversationTurns(
  id: string,
  input: unknown,
  visibility: VisibilityScope,
  log: EventLog,
): Promise<EarlierTurns> {
  const conversation = await loadConversation(id, visibility, log, 'conversation');
  const placeholders = () => placeholdersOf(conversation);
  return { kind: 'conversation', id, turn: inputOfTurn(conversation, input), placeholders };
}

async function responseTurns(
  previousId: string,
  visibility: VisibilityScope,
  archive: ResponseArchive,
): Promise<EarlierTurns> {
  let chain: Promise<StoredResponse[]> | undefined;
  const load = () => {
    chain ??= loadChain(previousId, visibility, archive);
    return chain;
  };
  return { kind: 'response', previousId, head: await archive.find(previousId, visibility), chain: load };
}

/**
 * The input with the turns before it, for one target; undefined when there are none, or when its provider has them.
 * @throws Refusal when they are not found
 */
export async function turnsFor(
  planned: PlanInput,
  { archive }: Pick<Stored, 'archive'>,
): Promise<TurnInput | undefined> {
  const { history, record, reservation } = planned;
  if (history === undefined) return undefined;
  if (history.kind === 'response') return responseTurnsFor(history, planned, archive);
  const { id, turn } = history;
  if (turn.earlier === 0) return undefined;
  if (reservation?.isCounted) reservation.expectEarlierTurns(tokensOf(turn.input.slice(0, turn.earlier)));
  const facts = { responses: [], conversation: id, items: turn.input.length };
  record.note(historyReplayed.create(facts, record.context));
  return turn;
}

async function responseTurnsFor(
  { previousId, head, chain }: Extract<EarlierTurns, { kind: 'response' }>,
  { parsedRequest, target, record, visibility, reservation }: PlanInput,
  archive: ResponseArchive,
): Promise<TurnInput | undefined> {
  if (target.provider.capabilities.responseLifecycle === 'yes') {
    if (head === undefined && !(await archive.mayBeOnlyAtProvider(previousId, visibility))) {
      throw refusals.previousResponseNotFound(previousId);
    }
    // The provider has the previous response: it is the provider's own, or one that this gateway has not stored. A
    // translated response is stored here only.
    if (head === undefined || (head.native && head.provider === target.provider.name)) {
      if (reservation?.isCounted && head !== undefined) reservation.expectEarlierTurns(tokensFrom(head));
      return undefined;
    }
  }
  const responses = await chain();
  const { items: input, earlier } = withTurns(responses, parsedRequest.json.input);
  if (reservation?.isCounted) reservation.expectEarlierTurns(tokensOf(input.slice(0, earlier)));
  const facts = { responses: responses.map(({ id }) => id), items: input.length };
  record.note(historyReplayed.create(facts, record.context));
  return { input, earlier };
}

/**
 * The input with the turns before it, where the gateway runs the tools of the response: it has to read them itself,
 * unless only the provider knows them.
 * @throws Refusal when they are not found
 */
export async function wholeInput({ history, parsedRequest }: PlanInput): Promise<{
  readonly items: readonly JsonObject[];
  readonly earlier: number;
  /** The response that only the provider knows. */
  readonly previousId?: string;
}> {
  const { input } = parsedRequest.json;
  if (history === undefined) return { items: inputItems(input), earlier: 0 };
  if (history.kind === 'conversation') return { items: history.turn.input, earlier: history.turn.earlier };
  const { previousId, head, chain } = history;
  if (head === undefined) return { items: inputItems(input), earlier: 0, previousId };
  return withTurns(await chain(), input);
}

function withTurns(responses: readonly StoredResponse[], given: unknown): { items: JsonObject[]; earlier: number } {
  const turns = responses.map(({ inputItems: input_items, response }) => ({ input_items, output: outputOf(response) }));
  const items = mergeHistory(turns, given);
  return { items, earlier: items.length - inputItems(given).length };
}

/** Tokens that the provider puts before the input: the turns before that response, its input, and its answer. */
function tokensFrom({ response, inputItems: items }: StoredResponse): EarlierTokens {
  const { usage } = response;
  const reported = isObject(usage) ? usage['total_tokens'] : undefined;
  if (typeof reported === 'number') return { likely: reported, most: () => reported * BYTES_PER_TOKEN };
  return { likely: promptTokens(items) + promptTokens(response['output']), most: () => undefined };
}

/** Tokens that the gateway puts before the input: each byte may be one. */
function tokensOf(turns: readonly JsonObject[]): EarlierTokens {
  return {
    likely: promptTokens(turns),
    most() {
      const { isText, writesCache } = contentOf({ input: turns });
      return isText && !writesCache ? Buffer.byteLength(JSON.stringify(turns)) : undefined;
    },
  };
}

function outputOf(response: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  return Array.isArray(response.output) ? response.output : [];
}
