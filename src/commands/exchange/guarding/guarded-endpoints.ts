/**
 * The endpoints whose requests guardrails can read. A request to any other endpoint is refused when its workflow has
 * guardrails.
 */
import { completionIdOf } from '../../chat/completion-id.ts';
import { guardedBodies } from '../../guardrails/body/guarded-bodies.ts';
import type { GuardedBody } from '../../guardrails/body/guarded-body.ts';
import type { AnswerWriter } from '../answer/reader-and-writer.ts';
import type { ExchangeDialect, PastAttempt } from '../dialect.ts';
import { ChatWriter } from '../dialects/chat/writer.ts';
import { forwardRelay } from '../dialects/forward/forward-relay.ts';
import { MessagesWriter } from '../dialects/messages/writer.ts';
import type { Dialects } from '../record/read-exchange.ts';
import type { GuardedAnswers, GuardedEndpoint } from './guarded-endpoint.ts';
import { guardedResponses, type ResponsesParts } from './guarded-responses.ts';

export type GuardedEndpoints = ReadonlyMap<string, GuardedEndpoint>;

/** @returns by the path of the endpoint */
export function guardedEndpoints(dialects: Dialects, parts: ResponsesParts): GuardedEndpoints {
  const { chat, messages, completions, embeddings, responses } = guardedBodies;
  const ofChat: GuardedAnswers = {
    stream: 'chat',
    writer: ({ provider }) => new ChatWriter(provider.name, true),
    ofText: textAnswers(dialects.get('chat')),
  };
  const ofMessages: GuardedAnswers = {
    stream: 'messages',
    writer: ({ provider }) => new MessagesWriter(provider.name),
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
  writer: ({ provider }) => new ChatWriter(provider.name, true) satisfies AnswerWriter<never>,
  ofText(text, { exchangeId, createdAt, model, provider }) {
    const id = `cmpl-${exchangeId.replaceAll('-', '')}`;
    const choice = { text, index: 0, logprobs: null, finish_reason: 'stop' };
    const whole = { id, object: 'text_completion', created: createdAt, model, choices: [choice], usage: noTokens };
    return { relay: forwardRelay(provider, true), whole, events: [{ ...whole, usage: null }] };
  },
};

const noTokens = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

/** Answers as chat completions, from which the relay of a translated answer makes the client's. */
function textAnswers(dialect: Pick<ExchangeDialect, 'relayOfRecorded'> | undefined): GuardedAnswers['ofText'] {
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
      relay: dialect.relayOfRecorded({ ...past, dialect: 'chat' }),
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
