/**
 * `POST /v1/chat/completions`: forwarded unchanged, except for the model's name and the changes that the provider's
 * type requires.
 */
import { isObject } from '../../../../json/is-object.ts';
import { MAX_CALLS } from '../../../../providers/parallel-calls.ts';
import type { Dialect } from '../../../../providers/provider.ts';
import {
  type ChatAdapter,
  type ChatAnswerFacts,
  type ChatReader,
  ParallelReader,
} from '../../../../providers/translate/chat-adapter.ts';
import { MessagesAnswerReader } from '../../../../providers/translate/chat-to-messages/reader.ts';
import { messagesRequestFromChat } from '../../../../providers/translate/chat-to-messages/request.ts';
import { OllamaReader } from '../../../../providers/translate/chat-to-ollama/reader.ts';
import { ollamaRequestFromChat } from '../../../../providers/translate/chat-to-ollama/request.ts';
import {
  filled,
  type JsonObject,
  rewriteMembers,
  type TranslationRefusal,
} from '../../../../providers/translate/json.ts';
import { loweredEffort, type ReasoningStyle } from '../../../../providers/translate/responses-to-chat/reasoning.ts';
import { providerType } from '../../../../providers/types.ts';
import { chatRequestSchema, completionIdOf } from '../../../chat/chat-request.ts';
import { type Answering, parseChunk } from '../../../model-request/answer-body.ts';
import type { ParsedRequest } from '../../../model-request/model-request.ts';
import type { Target } from '../../../model-request/routing-types.ts';
import { callsFor } from '../../../model-request/usage.ts';
import { refusedInTranslation } from '../../../refusal.ts';
import { checkRequest } from '../../../request-check.ts';
import {
  type ExchangeDialect,
  hasMembers,
  memberChanges,
  type PastAttempt,
  type PlanInput,
  readWith,
} from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import { AnswerStream } from '../../response-stream.ts';
import { ChatAnswerReader, ChatCompletionAnswer } from './answer.ts';

const ENDPOINT = '/v1/chat/completions';

interface ChatDialectOptions {
  /** Whether the gateway requests usage from providers on every stream, in order to record it. */
  readonly enforceUsage: boolean;
}

export function createChatDialect({ enforceUsage }: ChatDialectOptions): ExchangeDialect {
  return {
    name: 'chat',
    endpoint: ENDPOINT,
    read: (json) => readWith(checkRequest(chatRequestSchema, json, ['model', 'messages'])),
    plan(input: PlanInput): Plan<AnswerStream> {
      const { parsedRequest, body, target, record, createdAt } = input;
      const wantsUsage = clientWantsUsage(parsedRequest);
      if (chatDialectOf(target.provider.type) !== 'chat') {
        const { provider: _hint, ...chat } = parsedRequest.json;
        const calls = callsFor(ENDPOINT, target.provider.type, parsedRequest.json);
        const sent = { ...chat, ...(calls > 1 ? { n: 1 } : {}), model: target.model };
        const upstream = upstreamChat(sent, target, parsedRequest.stream, withMostChoices);
        const facts = chatAnswerFacts(record.id, target.model, createdAt);
        return {
          kind: 'model',
          ...upstream,
          ...(calls > 1 ? { calls } : {}),
          newStream: () => translated(target.provider, { dialect: upstream.dialect, calls }, facts, wantsUsage),
        };
      }
      const changes = memberChanges(input);
      if (parsedRequest.stream && enforceUsage && !wantsUsage) {
        const options = isObject(parsedRequest.json.stream_options) ? parsedRequest.json.stream_options : {};
        changes.stream_options = JSON.stringify({ ...options, include_usage: true });
      }
      Object.assign(changes, adjustChatBody(target.provider.type, target.model, parsedRequest.json));
      return {
        kind: 'model',
        dialect: 'chat',
        body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
        newStream: () => unchanged(target.provider, wantsUsage || !enforceUsage),
      };
    },
    streamOfRecorded({ parsedRequest, model, provider, dialect, calls, exchangeId, createdAt }) {
      const wantsUsage = clientWantsUsage(parsedRequest);
      if (dialect === 'chat') return unchanged(provider, wantsUsage || !enforceUsage);
      return translated(provider, { dialect, calls }, chatAnswerFacts(exchangeId, model, createdAt), wantsUsage);
    },
  };
}

function withMostChoices(refusal: TranslationRefusal): TranslationRefusal {
  if (refusal.param !== 'n') return refusal;
  const message = `'n' must be an integer from 1 to ${MAX_CALLS} for this model: its provider gives one choice, and the gateway calls it once for each.`;
  return { ...refusal, code: 'unsupported_value', message };
}

function translated(
  provider: Answering,
  { dialect, calls }: Pick<PastAttempt, 'dialect' | 'calls'>,
  facts: ChatAnswerFacts,
  passesUsage: boolean,
): AnswerStream {
  const reader = new ChatAnswerReader(provider, chatReader(dialect, facts, calls));
  return new AnswerStream(reader, new ChatCompletionAnswer(provider, passesUsage));
}

function unchanged(provider: Answering, passesUsage: boolean): AnswerStream {
  const answer = new ChatCompletionAnswer(provider, passesUsage);
  return new AnswerStream(answer, answer);
}

/** Whether a streaming client requested the usage chunk. */
function clientWantsUsage({ json }: ParsedRequest): boolean {
  return isObject(json.stream_options) && json.stream_options.include_usage === true;
}

// A chat completion request as it is sent to a provider, in the provider's dialect.

interface UpstreamChat {
  readonly dialect: Dialect;
  readonly body: Buffer;
}

/** The dialect in which this type of provider gets a chat completion request. */
export function chatDialectOf(type: string): Dialect {
  return providerType(type)?.chatDialect ?? 'chat';
}

/**
 * @param chat a chat completion request with the provider's own id of the model
 * @param withClientNames rewrites a refusal for a client that did not send a chat completion request itself
 * @throws Refusal when the request cannot be expressed in the provider's dialect
 */
export function upstreamChat(
  chat: JsonObject,
  { provider, model }: Target,
  stream: boolean,
  withClientNames: (refusal: TranslationRefusal) => TranslationRefusal = (refusal) => refusal,
): UpstreamChat {
  const dialect = chatDialectOf(provider.type);
  const adapter = chatAdapter(dialect);
  if (adapter === undefined) {
    const changes = adjustChatBody(provider.type, model, chat);
    const body = Buffer.from(JSON.stringify(chat));
    return { dialect, body: changes === undefined ? body : rewriteMembers(body, changes) };
  }
  const translated = adapter.request(chat, { model, stream, options: provider.options });
  if (!translated.ok) throw refusedInTranslation(withClientNames(translated.refusal));
  return { dialect, body: Buffer.from(JSON.stringify(translated.body)) };
}

/** Reads an answer in the given dialect as chat completions. @param calls of the attempt, in parallel */
export function chatReader(dialect: string, facts: ChatAnswerFacts, calls = 1): ChatReader {
  const adapter = chatAdapter(dialect);
  if (adapter === undefined) return new PlainChatReader();
  return calls === 1 ? adapter.reader(facts) : new ParallelReader(facts, calls, adapter.reader);
}

/** The facts of an answer recorded in this exchange; they are the same each time the record is read. */
export function chatAnswerFacts(exchangeId: string, model: string, createdAt: number): ChatAnswerFacts {
  return { id: completionIdOf(exchangeId), model, createdAt };
}

class PlainChatReader implements ChatReader {
  #ended = false;

  answerId: string | undefined;

  whole(answer: unknown): unknown {
    if (isObject(answer)) this.answerId = filled(answer['id']);
    return answer;
  }

  chunks(data: string): readonly JsonObject[] | undefined {
    if (data === '[DONE]') {
      this.#ended = true;
      return [];
    }
    if (data.trim() === '') return [];
    const chunk = parseChunk(data);
    this.answerId ??= filled(chunk?.['id']);
    return chunk === undefined ? undefined : [chunk];
  }

  get ended(): boolean {
    return this.#ended;
  }
}

/** The dialects that chat completions can be translated to: Anthropic's Messages API, and Ollama's own. */
const adapters: readonly ChatAdapter[] = [
  { dialect: 'messages', request: messagesRequestFromChat, reader: (facts) => new MessagesAnswerReader(facts) },
  { dialect: 'ollama_chat', request: ollamaRequestFromChat, reader: (facts) => new OllamaReader(facts) },
];

/** The adapter of a dialect; undefined for a dialect that needs no translation from chat completions. */
function chatAdapter(dialect: string): ChatAdapter | undefined {
  return adapters.find((one) => one.dialect === dialect);
}

// Changes that a provider type needs in a chat request's top-level members. All other members are sent unchanged.

/** Member name → its new JSON text, or undefined to delete it; input of `rewriteMembers`. */
type MemberChanges = Record<string, string | undefined>;

/** @param model the provider's own id of the model */
export function adjustChatBody(
  type: string,
  model: string,
  body: Readonly<Record<string, unknown>>,
): MemberChanges | undefined {
  const row = providerType(type);
  if (row === undefined || row.chatAsSent === true) return undefined;
  const changes: MemberChanges = {};
  const reasons = row.openAiReasoningModels === true && isOpenAiReasoningModel(model);
  adjustEffort(body, row.reasoning, changes);
  if (reasons) {
    rename(body, 'max_tokens', 'max_completion_tokens', changes);
    if ('temperature' in body) changes['temperature'] = undefined;
  }
  if (row.maxTokensOnly === true) rename(body, 'max_completion_tokens', 'max_tokens', changes);
  if (row.refusesStreamOptions === true && (body['stream'] === true || 'stream_options' in body)) {
    changes['stream_options'] = undefined;
  }
  for (const _ in changes) return changes;
  return undefined;
}

/** The o-series and gpt-5, except `gpt-5-chat`, which does not reason. */
function isOpenAiReasoningModel(model: string): boolean {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase();
  return /^o\d(?![a-z0-9])/.test(name) || (/^gpt-5(?![a-z0-9])/.test(name) && !/^gpt-5[.\d]*-chat/.test(name));
}

/** Moves `reasoning: {effort}` to the type's own member, and replaces an unknown level by the nearest known one. */
function adjustEffort(body: Readonly<Record<string, unknown>>, style: ReasoningStyle, changes: MemberChanges): void {
  const { reasoning, reasoning_effort: flat } = body;
  const requestedEffort = isObject(reasoning) ? reasoning['effort'] : undefined;
  if (style.effort === 'object') {
    if (!isObject(reasoning) || typeof requestedEffort !== 'string') return;
    const effort = loweredEffort(requestedEffort, style.levels);
    if (effort !== requestedEffort) changes['reasoning'] = JSON.stringify({ ...reasoning, effort });
    return;
  }
  if (reasoning !== undefined) changes['reasoning'] = undefined;
  const level = typeof flat === 'string' ? flat : requestedEffort;
  if (style.effort === 'omit' || typeof level !== 'string') return;
  const effort = loweredEffort(level, style.levels);
  if (effort !== flat) changes['reasoning_effort'] = JSON.stringify(effort);
}

/** When the body has both, the member with the provider's name stays and the other is deleted. */
function rename(body: Readonly<Record<string, unknown>>, from: string, to: string, changes: MemberChanges): void {
  if (!(from in body)) return;
  changes[from] = undefined;
  if (body[to] === undefined || body[to] === null) changes[to] = JSON.stringify(body[from]);
}
