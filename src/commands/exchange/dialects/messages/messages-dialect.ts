/** `POST /v1/messages`: native where the provider speaks it, otherwise translated to chat completions and back. */
import { type ClientEvent, type JsonObject, rewriteMembers } from '../../../../providers/translate/json.ts';
import {
  anthropicMessages,
  type Message,
  type MessageShell,
  thoughtsFor,
} from '../../../../providers/translate/messages-to-chat/message-object.ts';
import { chatRequestFromMessages } from '../../../../providers/translate/messages-to-chat/request.ts';
import {
  createMessageStreamTranslator,
  type MessageStreamTranslator,
  messageFromChat,
} from '../../../../providers/translate/messages-to-chat/stream.ts';
import { plainReasoning } from '../../../../providers/translate/responses-to-chat/reasoning.ts';
import { providerType } from '../../../../providers/types.ts';
import type { ModelCaller } from '../../../access/model-access.ts';
import {
  estimateInputTokens,
  messageIdOf,
  parseCountTokensRequest,
  parseMessagesRequest,
} from '../../../messages/messages-request.ts';
import type { Answering } from '../../../model-request/answer-body.ts';
import { type ParsedRequest, readJson } from '../../../model-request/model-request.ts';
import type { Reach, Target } from '../../../model-request/routing-types.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import { type Refusal, refusals, refusedInTranslation } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import {
  type ExchangeDialect,
  hasMembers,
  memberChanges,
  type PastAttempt,
  type PlanInput,
  readWith,
} from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import { AnswerStream, type AnswerWriter, type WrittenEnd } from '../../response-stream.ts';
import { ChatAnswerReader } from '../chat/answer.ts';
import { chatAnswerFacts, chatDialectOf, chatReader, upstreamChat } from '../chat/chat-dialect.ts';
import { passthroughStream } from '../passthrough/passthrough-dialect.ts';
import { MessagesAnswer, messagesErrorEvent } from './answer.ts';

/** Writes chat completion chunks for a client of the Messages API. */
class MessagesFromChat implements AnswerWriter {
  readonly namesEvents = true;
  readonly #provider: string;
  readonly #shell: MessageShell;
  readonly #translator: MessageStreamTranslator;
  #whole: Message | undefined;

  constructor(provider: string, shell: MessageShell) {
    this.#provider = provider;
    this.#shell = shell;
    this.#translator = createMessageStreamTranslator(shell);
  }

  writeWhole(completion: unknown): Message {
    this.#whole = messageFromChat(completion, this.#shell);
    if (this.#whole !== undefined) return this.#whole;
    const name = this.#provider;
    throw refusals.badAnswer(
      name,
      `The provider '${name}' gave an answer without a choice, or one that was interrupted.`,
    );
  }

  write(chunk: JsonObject): readonly ClientEvent[] {
    return this.#translator.push(chunk);
  }

  finish(): WrittenEnd {
    if (!this.#translator.stopped) return { events: this.broken(streamIncomplete(this.#provider)), cut: true };
    return { events: this.#translator.finish(), cut: false };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return [messagesErrorEvent(refusal)];
  }

  abandon(): readonly ClientEvent[] {
    return this.broken(gatewayStopping());
  }

  get finishReason(): string | null {
    return this.#message().stop_reason;
  }

  /** The message as the client gets it, for the record only. */
  response(): StorableResponse {
    const message = this.#message();
    return { id: message.id, status: 'completed', json: JSON.stringify(message) };
  }

  #message(): Message {
    return this.#whole ?? this.#translator.message();
  }
}

export const messagesDialect: ExchangeDialect = {
  name: 'messages',
  endpoint: '/v1/messages',
  read: (json) => readWith(parseMessagesRequest(json)),
  plan: (input) => (speaksMessages(input.target.provider.type) ? native(input) : translated(input)),
  streamOfRecorded,
};

/** Whether providers of this type speak Anthropic's Messages API. */
export function speaksMessages(type: string): boolean {
  return chatDialectOf(type) === 'messages';
}

function native(input: PlanInput): Plan<AnswerStream> {
  const { target, headers } = input;
  return {
    kind: 'model',
    dialect: 'messages',
    body: nativeBody(input),
    headers: anthropicHeaders(headers),
    newStream: () => unchanged(target.provider),
  };
}

/**
 * The client's bytes without the routing hint, with the provider's model, and without what the gateway added to
 * earlier answers.
 */
export function nativeBody(input: Pick<PlanInput, 'parsedRequest' | 'body' | 'target'>): Buffer {
  const { parsedRequest, body } = input;
  const changes = memberChanges(input);
  const messages = anthropicMessages(parsedRequest.json.messages);
  if (messages !== undefined) changes.messages = JSON.stringify(messages);
  return hasMembers(changes) ? rewriteMembers(body, changes) : body;
}

/** The client's headers that Anthropic reads. */
export function anthropicHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of ['anthropic-version', 'anthropic-beta']) {
    const value = headers[name];
    if (value !== undefined && value !== '') passed[name] = value;
  }
  return passed;
}

/** @throws Refusal when a chat provider cannot honour the request */
function translated({ parsedRequest, target, record, createdAt }: PlanInput): Plan<AnswerStream> {
  const { provider, model } = target;
  const chat = chatRequestFromMessages(parsedRequest.json, {
    model,
    reasoningStyle: providerType(provider.type)?.reasoning ?? plainReasoning,
  });
  if (!chat.ok) throw refusedInTranslation(chat.refusal);
  const upstream = upstreamChat(chat.body, target, parsedRequest.stream);
  const attempt = {
    parsedRequest,
    exchangeId: record.id,
    createdAt,
    provider,
    model,
    dialect: upstream.dialect,
  };
  return { kind: 'model', ...upstream, newStream: () => streamOfRecorded(attempt) };
}

type Attempt = Pick<PastAttempt, 'parsedRequest' | 'exchangeId' | 'createdAt' | 'provider' | 'model' | 'dialect'>;

function streamOfRecorded({ parsedRequest, exchangeId, createdAt, provider, model, dialect }: Attempt): AnswerStream {
  if (dialect === 'messages') return unchanged(provider);
  const reader = new ChatAnswerReader(provider, chatReader(dialect, chatAnswerFacts(exchangeId, model, createdAt)));
  return new AnswerStream(reader, new MessagesFromChat(provider.name, shellOf(parsedRequest, exchangeId, model)));
}

function unchanged(provider: Answering): AnswerStream {
  const answer = new MessagesAnswer(provider);
  return new AnswerStream(answer, answer);
}

function shellOf({ json }: ParsedRequest, exchangeId: string, model: string): MessageShell {
  const { stop_sequences: sequences } = json;
  return {
    id: messageIdOf(exchangeId),
    model,
    stopSequences: Array.isArray(sequences) ? sequences : [],
    thoughts: thoughtsFor(json),
  };
}

// `POST /v1/messages/count_tokens` where the provider can count: forwarded, and recorded like any request.

/** Estimated, for models whose providers do not count. Undefined when a provider does. */
function estimatedTokens(json: JsonObject, candidates: readonly Target[]): number | undefined {
  return candidates.some(({ provider }) => speaksMessages(provider.type)) ? undefined : estimateInputTokens(json);
}

export const countTokensDialect: ExchangeDialect = {
  name: 'forward',
  endpoint: '/v1/messages/count_tokens',
  mayBeFree: true,
  read: (json) => readWith(parseCountTokensRequest(json)),
  answerWithoutProvider({ json }, candidates) {
    const input_tokens = estimatedTokens(json, candidates);
    if (input_tokens === undefined) return undefined;
    return () => ({ stream: passthroughStream(), whole: { input_tokens }, events: [] });
  },
  plan(input) {
    const { name, type } = input.target.provider;
    // A virtual model may have this candidate and others that can count.
    if (!speaksMessages(type)) throw refusals.unsupportedEndpoint(`The provider '${name}' does not count tokens.`);
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    return {
      kind: 'forward',
      dialect: 'forward',
      answer: '/v1/messages/count_tokens',
      call: {
        method: 'POST',
        path: '/messages/count_tokens',
        headers: { ...headers, ...anthropicHeaders(input.headers) },
      },
      body: nativeBody(input),
      repeatable: true,
      readsWhole: true,
      newStream: () => passthroughStream(),
    };
  },
  streamOfRecorded: () => passthroughStream(),
};

// The number of tokens of a Messages request, estimated where its provider does not count.

/**
 * The gateway estimates without calling a provider, so nothing is recorded. Undefined for a model whose provider
 * counts itself, and for a request that guardrails read: it is an exchange.
 * @throws Refusal
 */
export async function estimatedCount(
  body: Buffer,
  caller: ModelCaller,
  router: Reach,
  isGuarded: (target: Target) => boolean,
): Promise<number | undefined> {
  const read = readJson(countTokensDialect, body);
  if (!read.ok) throw read.refusal;
  const { model, provider, json } = read.parsedRequest;
  const reached = await router.reach({ selector: model, provider, caller });
  return reached.some(isGuarded) ? undefined : estimatedTokens(json, reached);
}
