/** Guardrails of the Responses API: earlier turns and referenced items are read with the request. */
import { historyReplayed } from '../../../events/catalogue/exchange.ts';
import { isObject } from '../../../json/is-object.ts';
import { providerType } from '../../../providers/types.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import type { Target } from '../../model-request/target.ts';
import { refusals } from '../../refusal.ts';
import { withReferencedItems } from '../../responses/chain.ts';
import type { FindItem, FoundItem } from '../../responses/found-item.ts';
import { mergeHistory, replayed } from '../../responses/history.ts';
import { inputItems } from '../../responses/input-items.ts';
import { responseIdOf } from '../../responses/response-id.ts';
import type { Sight } from '../../visibility.ts';
import { shellOf } from '../dialects/responses/responses-dialect.ts';
import { ResponsesWriter } from '../dialects/responses/writer.ts';
import type { GuardedAnswers, MergedRequest, MergeInput } from './guarded-endpoint.ts';

export interface ResponsesParts {
  /** Finds the stored item that a caller refers to by id. */
  readonly findItem: (sight: Sight) => FindItem;
}

export function guardedResponses(ofText: GuardedAnswers['ofText'], parts: ResponsesParts) {
  const answers: GuardedAnswers = {
    stream: 'responses',
    writer: ({ provider, parsedRequest, exchangeId, createdAt, model }) =>
      new ResponsesWriter(provider.name, {
        shell: () =>
          shellOf(parsedRequest, { id: responseIdOf(exchangeId), createdAt, model, provider: provider.name }),
      }),
    ofText,
  };
  return {
    answers,
    check: refuseBackground,
    merged: (input: MergeInput) => merged(input, parts.findItem(input.sight)),
  };
}

interface Turns {
  readonly input: unknown;
  readonly earlier: number;
  readonly placeholders: readonly RecordedPlaceholder[];
  /** The turns that every candidate looks up itself. */
  readonly history: MergeInput['history'];
}

async function merged(input: MergeInput, find: FindItem): Promise<MergedRequest | undefined> {
  const { parsedRequest, candidates } = input;
  const turns = await turnsOf(input);
  const held = new Map<string, readonly RecordedPlaceholder[]>();
  const stays = (found: FoundItem | undefined) =>
    found === undefined ||
    candidates.every((target) => keepsResponses(target) && found.provider === target.provider.name);
  const noted: FindItem = async (id) => {
    const found = await find(id);
    if (found !== undefined) held.set(id, found.placeholders());
    return found;
  };
  const { input: given, earlier, history } = turns;
  const whole = await withReferencedItems(given, { find: noted, stays, form: replayed, earlier });
  const placeholders = [...turns.placeholders, ...[...held.values()].flat()];
  if (whole === parsedRequest.json.input && placeholders.length === 0) return undefined;
  const { previous_response_id: previous, conversation: _ours, ...json } = parsedRequest.json;
  const isNamed = history !== undefined && previous !== undefined;
  return {
    json: { ...json, input: whole, ...(isNamed && { previous_response_id: previous }) },
    earlier,
    history,
    placeholders,
  };
}

/** Its answer would be fetched from the provider later, past the guardrails. @throws Refusal */
function refuseBackground({ parsedRequest, candidates }: Pick<MergeInput, 'parsedRequest' | 'candidates'>): void {
  if (parsedRequest.json.background !== true) return;
  const target = candidates.find(keepsResponses);
  if (target === undefined) return;
  const { name } = target.provider;
  throw refusals.unsupportedParameter(
    'background',
    `the workflow of this request has guardrails, and the provider '${name}' would keep the answer itself`,
  );
}

async function turnsOf({ parsedRequest, history, candidates, record }: MergeInput): Promise<Turns> {
  const { input } = parsedRequest.json;
  if (history === undefined) return { input, earlier: 0, placeholders: [], history };
  if (history.kind === 'conversation') {
    const { id, turn } = history;
    if (turn.earlier > 0) {
      const facts = { responses: [], conversation: id, items: turn.input.length };
      record.note(historyReplayed.create(facts, record.context));
    }
    return { ...turn, placeholders: history.placeholders(), history: undefined };
  }
  const { head } = history;
  // Only the provider knows it.
  if (head === undefined) return { input, earlier: 0, placeholders: [], history };
  const { placeholders } = head;
  const isKnown = (target: Target) => keepsResponses(target) && head.native && head.provider === target.provider.name;
  if (candidates.every(isKnown)) return { input, earlier: 0, placeholders, history };
  const responses = await history.chain();
  const turns = responses.map(({ inputItems: input_items, response }) => ({
    input_items,
    output: Array.isArray(response['output']) ? response['output'].filter(isObject) : [],
  }));
  const whole = mergeHistory(turns, input);
  const facts = { responses: responses.map(({ id }) => id), items: whole.length };
  record.note(historyReplayed.create(facts, record.context));
  return { input: whole, earlier: whole.length - inputItems(input).length, placeholders, history: undefined };
}

function keepsResponses({ provider }: Target): boolean {
  return provider.capabilities.responseLifecycle === 'yes' || providerType(provider.type)?.responseLifecycle === 'yes';
}
