/** `POST /v1/messages`: native where the provider speaks it, otherwise translated to chat completions and back. */
import { type JsonObject, rewriteMembers } from '../../../../providers/translate/json.ts';
import {
  anthropicMessages,
  encodeMessageEvent,
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
import { type AnswerWriter, joined, type Relay, translatedRelay, unchangedRelay } from '../../relay.ts';
import { ChatAnswerReader } from '../chat/answer.ts';
import { chatAnswerFacts, chatDialectOf, chatReader, upstreamChat } from '../chat/chat-dialect.ts';
import { passthroughRelay } from '../passthrough/passthrough-dialect.ts';
import { MessagesObserver, MessagesWriter, messagesStreamError, ObservedMessage } from './answer.ts';

/** Writes chat completion chunks for a client of the Messages API. */
class MessagesFromChatWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  readonly #shell: MessageShell;
  readonly #translator: MessageStreamTranslator;
  #whole: Message | undefined;

  constructor(provider: string, shell: MessageShell) {
    this.#provider = provider;
    this.#shell = shell;
    this.#translator = createMessageStreamTranslator(shell);
  }

  whole(completion: unknown): Buffer {
    this.#whole = messageFromChat(completion, this.#shell);
    if (this.#whole === undefined) {
      const name = this.#provider;
      throw refusals.badAnswer(
        name,
        `The provider '${name}' gave an answer without a choice, or one that was interrupted.`,
      );
    }
    return Buffer.from(JSON.stringify(this.#whole));
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    return joined(chunks.flatMap((chunk) => this.#translator.push(chunk)).map(encodeMessageEvent));
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (!this.#translator.stopped) return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
    return { bytes: Buffer.concat(this.#translator.finish().map(encodeMessageEvent)), cut: false };
  }

  broken(refusal: Refusal): Buffer {
    return messagesStreamError(refusal);
  }

  abandon(): Buffer {
    return messagesStreamError(gatewayStopping());
  }

  finishReason(): string | null {
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
  relayOfRecorded,
};

/** Whether providers of this type speak Anthropic's Messages API. */
export function speaksMessages(type: string): boolean {
  return chatDialectOf(type) === 'messages';
}

function native(input: PlanInput): Plan<Relay> {
  const { target, headers } = input;
  return {
    kind: 'model',
    dialect: 'messages',
    body: nativeBody(input),
    headers: anthropicHeaders(headers),
    relay: () => unchanged(target.provider),
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
function translated({ parsedRequest, target, record, createdAt }: PlanInput): Plan<Relay> {
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
  return { kind: 'model', ...upstream, relay: () => relayOfRecorded(attempt) };
}

type Attempt = Pick<PastAttempt, 'parsedRequest' | 'exchangeId' | 'createdAt' | 'provider' | 'model' | 'dialect'>;

function relayOfRecorded({ parsedRequest, exchangeId, createdAt, provider, model, dialect }: Attempt): Relay {
  if (dialect === 'messages') return unchanged(provider);
  const reader = new ChatAnswerReader(provider, chatReader(dialect, chatAnswerFacts(exchangeId, model, createdAt)));
  return translatedRelay(reader, new MessagesFromChatWriter(provider.name, shellOf(parsedRequest, exchangeId, model)));
}

function unchanged(provider: Answering): Relay {
  const message = new ObservedMessage();
  return unchangedRelay(new MessagesObserver(provider, message), new MessagesWriter(provider.name, message));
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
    return () => ({ relay: passthroughRelay(), whole: { input_tokens }, events: [] });
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
      relay: () => passthroughRelay(),
    };
  },
  relayOfRecorded: () => passthroughRelay(),
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
