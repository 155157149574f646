/**
 * The endpoints whose requests guardrails can read. A request to any other endpoint is refused when its workflow has
 * guardrails.
 */
import { historyReplayed } from '../../../events/catalogue/exchange.ts';
import { isObject } from '../../../json/is-object.ts';
import { createFrameSplitter } from '../../../providers/stream-frames.ts';
import { providerType } from '../../../providers/types.ts';
import { completionIdOf } from '../../chat/chat-request.ts';
import type { GuardedBody } from '../../guardrails/body/body-texts.ts';
import { guardedBodies } from '../../guardrails/body/guarded-bodies.ts';
import type { RecordedPlaceholder } from '../../guardrails/placeholders.ts';
import { parseChunk } from '../../model-request/answer-body.ts';
import type { Target } from '../../model-request/routing-types.ts';
import type { EarlyEnd } from '../../model-request/upstream-refusals.ts';
import { refusals } from '../../refusal.ts';
import { type FindItem, type FoundItem, resolvedInput } from '../../responses/archive.ts';
import { responseIdOf } from '../../responses/create-request.ts';
import { mergeHistory, replayed } from '../../responses/history.ts';
import { inputItems } from '../../responses/input-items.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import type { VisibilityScope } from '../../visibility.ts';
import type { ExchangeDialect, PastAttempt } from '../dialect.ts';
import { ChatCompletionAnswer } from '../dialects/chat/answer.ts';
import { forwardStream } from '../dialects/forward/forward-dialect.ts';
import { MessagesAnswer } from '../dialects/messages/answer.ts';
import { ResponsesAnswer } from '../dialects/responses/answer.ts';
import { shellOf } from '../dialects/responses/responses-dialect.ts';
import type { Dialects } from '../record/read-exchange.ts';
import { encode } from '../response-stream.ts';
import type { GuardedAnswers, GuardedEndpoint, MergedRequest, MergeInput } from './exchange-guard.ts';

export type GuardedEndpoints = ReadonlyMap<string, GuardedEndpoint>;

/** @returns by the path of the endpoint */
export function guardedEndpoints(dialects: Dialects, parts: ResponsesParts): GuardedEndpoints {
  const { chat, messages, completions, embeddings, responses } = guardedBodies;
  const ofChat: GuardedAnswers = {
    stream: 'chat',
    writer: ({ provider }) => new ChatCompletionAnswer(provider, true),
    ofText: textAnswers(dialects.get('chat')),
  };
  const ofMessages: GuardedAnswers = {
    stream: 'messages',
    writer: ({ provider }) => new MessagesAnswer(provider),
    ofText: textAnswers(dialects.get('messages')),
  };
  const { answers, check, merged } = guardedResponses(textAnswers(dialects.get('responses')), parts);
  return new Map<string, GuardedEndpoint>([
    ['/v1/chat/completions', { bodies: chat, answers: ofChat }],
    ['/v1/messages', { bodies: messages, answers: ofMessages }],
    ['/v1/responses', { bodies: responses, answers, check, merged }],
    ['/v1/completions', { bodies: completions, answers: ofCompletions }],
    ['/v1/embeddings', { bodies: embeddings }],
    ['/v1/messages/count_tokens', { bodies: requestOnly(messages.request) }],
    ['/v1/responses/input_tokens', { bodies: requestOnly(responses.request), merged }],
  ]);
}

const requestOnly = (request: GuardedBody) => ({ request, answer: undefined });

const ofCompletions: GuardedAnswers = {
  stream: 'completions',
  writer: ({ provider }) => new ChatCompletionAnswer(provider, true),
  ofText(text, { exchangeId, createdAt, model, provider }) {
    const id = `cmpl-${exchangeId.replaceAll('-', '')}`;
    const choice = { text, index: 0, logprobs: null, finish_reason: 'stop' };
    const whole = { id, object: 'text_completion', created: createdAt, model, choices: [choice], usage: noTokens };
    return { stream: forwardStream(provider, true), whole, events: [{ ...whole, usage: null }] };
  },
};

const noTokens = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

/** Answers as chat completions, from which the stream of a translated answer makes the client's. */
function textAnswers(dialect: Pick<ExchangeDialect, 'streamOfRecorded'> | undefined): GuardedAnswers['ofText'] {
  return (text: string, past: PastAttempt) => {
    if (dialect === undefined) throw new Error('the dialect of a guarded endpoint is missing');
    const { exchangeId, createdAt, model } = past;
    const head = { id: completionIdOf(exchangeId), created: createdAt, model };
    const message = { role: 'assistant', content: text, refusal: null };
    const chunk = (delta: object, finish_reason: string | null) => ({
      ...{ ...head, object: 'chat.completion.chunk' },
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    });
    return {
      stream: dialect.streamOfRecorded({ ...past, dialect: 'chat' }),
      whole: {
        ...{ ...head, object: 'chat.completion', usage: noTokens },
        choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
      },
      events: [
        chunk({ role: 'assistant', content: '' }, null),
        chunk({ content: text }, null),
        chunk({}, 'stop'),
        { ...head, object: 'chat.completion.chunk', choices: [], usage: noTokens },
      ],
    };
  };
}

/** Guardrails of the Responses API: earlier turns and referenced items are read with the request. */
interface ResponsesParts {
  /** Finds the stored item that a caller refers to by id. */
  readonly findItem: (visibility: VisibilityScope) => FindItem;
}

function guardedResponses(ofText: GuardedAnswers['ofText'], parts: ResponsesParts) {
  const answers: GuardedAnswers = {
    stream: 'responses',
    writer: ({ provider, parsedRequest, exchangeId, createdAt, model }) =>
      new ResponsesAnswer(provider, {
        shell: () =>
          shellOf(parsedRequest, { id: responseIdOf(exchangeId), createdAt, model, provider: provider.name }),
      }),
    ofText,
  };
  return {
    answers,
    check: refuseBackground,
    merged: (input: MergeInput) => merged(input, parts.findItem(input.visibility)),
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
  const whole = await resolvedInput(given, { find: noted, stays, form: replayed, earlier });
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

// The answer of an exchange that was cut off, as far as its client may have received it.

interface DeliveredSoFar {
  /** The end of the client's stream. */
  readonly rest: Buffer | undefined;
  /** The response to store. */
  readonly response: StorableResponse | undefined;
}

/** @param frames the bodies of `frame.delivered`, in order; at least one */
export function deliveredAnswer(
  frames: readonly Uint8Array[],
  { writer }: Pick<GuardedAnswers, 'writer'>,
  past: PastAttempt,
  end: EarlyEnd,
): DeliveredSoFar {
  const answer = writer(past);
  for (const { data } of createFrameSplitter().push(Buffer.concat(frames))) {
    const event = data === undefined || data === '[DONE]' ? undefined : parseChunk(data);
    if (isObject(event)) answer.write(event);
  }
  return { rest: encode(answer.abandon(end), answer), response: answer.response?.() };
}
