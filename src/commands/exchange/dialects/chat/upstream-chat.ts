/** A chat completion request as it is sent to a provider, in the provider's dialect. */
import { isObject } from '../../../../json/is-object.ts';
import { chatAdapter } from '../../../../providers/chat-adapters.ts';
import { adjustChatBody } from '../../../../providers/chat-adjustments.ts';
import { rewriteMembers } from '../../../../providers/json-members.ts';
import type { Dialect } from '../../../../providers/provider.ts';
import type { ChatAnswerFacts, ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { ParallelReader } from '../../../../providers/translate/parallel-reader.ts';
import type { TranslationRefusal } from '../../../../providers/translate/refusal.ts';
import { providerType } from '../../../../providers/types.ts';
import { completionIdOf } from '../../../chat/chat-request.ts';
import { parseChunk } from '../../../model-request/parse-chunk.ts';
import type { Target } from '../../../model-request/target.ts';
import { refusedInTranslation } from '../../../refusal.ts';

export interface UpstreamChat {
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
