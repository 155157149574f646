/** The facts of a recorded answer that decide whether it may be served again, and the ids and times that it gets then. */
import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../../../providers/translate/json.ts';
import { isCarried } from '../../../providers/translate/responses-to-chat/reasoning.ts';
import { completionIdOf } from '../../chat/chat-request.ts';
import { messageIdOf } from '../../messages/messages-request.ts';
import { responseIdOf } from '../../responses/create-request.ts';

export interface RecordedAnswerFacts {
  /** Chat: of the first choice. Responses: the status. Messages: the stop reason. */
  readonly finishReason: string | null;
  /** Whether the answer calls a tool, of the client or of the provider. */
  readonly hasToolCalls: boolean;
  /**
   * Whether it contains reasoning that its provider encrypted, and accepts back only together with the item ids that it
   * issued. The gateway's own form of carried reasoning is not counted.
   */
  readonly hasEncryptedContent: boolean;
  /**
   * Whether the answer reached its regular end without an error: every choice ended by itself or with tool calls and
   * `[DONE]` follows, the status is `completed`, or the message stopped for a reason.
   */
  readonly isWhole: boolean;
}

/** Reads the parsed parts of one answer in order: the whole answer, or the data of each event of its stream. */
export interface FactReader {
  read(part: JsonObject): void;
  /** The end marker `[DONE]`. */
  end(): void;
  facts(): RecordedAnswerFacts;
}

export function factReader(dialect: ReissuedDialect, stream: boolean): FactReader {
  switch (dialect) {
    case 'chat':
      return new ChatFacts(stream);
    case 'responses':
      return new ResponsesFacts();
    case 'messages':
      return new MessagesFacts(stream);
    case 'embeddings':
      return new EmbeddingsFacts();
  }
}

class ChatFacts implements FactReader {
  readonly #choices = new Map<unknown, string | null>();
  #hasToolCalls = false;
  #hasError = false;
  #ended: boolean;

  constructor(stream: boolean) {
    this.#ended = !stream;
  }

  read(part: JsonObject): void {
    if (isObject(part['error'])) this.#hasError = true;
    for (const choice of objectsIn(part['choices'])) {
      const { index = 0, finish_reason: reason } = choice;
      const before = this.#choices.get(index) ?? null;
      this.#choices.set(index, typeof reason === 'string' && reason !== '' ? reason : before);
      for (const said of [choice['delta'], choice['message']]) {
        if (!isObject(said)) continue;
        if (isObject(said['function_call']) || objectsIn(said['tool_calls']).length > 0) this.#hasToolCalls = true;
      }
    }
  }

  end(): void {
    this.#ended = true;
  }

  facts(): RecordedAnswerFacts {
    const reasons = [...this.#choices.values()];
    const isWhole = this.#ended && !this.#hasError && reasons.length > 0 && reasons.every(endsItself);
    return {
      finishReason: this.#choices.get(0) ?? reasons[0] ?? null,
      hasToolCalls: this.#hasToolCalls,
      hasEncryptedContent: false,
      isWhole,
    };
  }
}

const endsItself = (reason: string | null) =>
  reason === 'stop' || reason === 'tool_calls' || reason === 'function_call';

class ResponsesFacts implements FactReader {
  #status: string | null = null;
  #hasToolCalls = false;
  #hasEncryptedContent = false;
  #hasError = false;

  read(part: JsonObject): void {
    if (part['type'] === 'error' || isObject(part['error'])) this.#hasError = true;
    const response = isObject(part['response']) ? part['response'] : part;
    if (typeof response['status'] === 'string') this.#status = response['status'];
    for (const item of objectsIn(response['output'])) this.#readItem(item);
    if (isObject(part['item'])) this.#readItem(part['item']);
  }

  end(): void {
    // The status says how the response ended.
  }

  facts(): RecordedAnswerFacts {
    return {
      finishReason: this.#status,
      hasToolCalls: this.#hasToolCalls,
      hasEncryptedContent: this.#hasEncryptedContent,
      isWhole: this.#status === 'completed' && !this.#hasError,
    };
  }

  #readItem({ type, encrypted_content: encrypted }: JsonObject): void {
    if (typeof type === 'string' && (type.endsWith('_call') || type.startsWith('mcp_'))) this.#hasToolCalls = true;
    if (typeof encrypted === 'string' && !isCarried(encrypted)) this.#hasEncryptedContent = true;
  }
}

class MessagesFacts implements FactReader {
  #stopReason: string | null = null;
  #hasToolCalls = false;
  #hasError = false;
  #ended: boolean;

  constructor(stream: boolean) {
    this.#ended = !stream;
  }

  read(part: JsonObject): void {
    const { type, message, delta, content_block: block } = part;
    if (type === 'error') this.#hasError = true;
    if (type === 'message_stop') this.#ended = true;
    for (const holder of [part, message, delta]) {
      if (isObject(holder) && typeof holder['stop_reason'] === 'string') this.#stopReason = holder['stop_reason'];
    }
    for (const one of objectsIn([...arrayIn(part['content']), block])) {
      if (typeof one['type'] === 'string' && one['type'].endsWith('tool_use')) this.#hasToolCalls = true;
    }
  }

  end(): void {
    // `message_stop` ends a stream of messages.
  }

  facts(): RecordedAnswerFacts {
    return {
      finishReason: this.#stopReason,
      hasToolCalls: this.#hasToolCalls,
      hasEncryptedContent: false,
      isWhole: this.#ended && this.#stopReason !== null && !this.#hasError,
    };
  }
}

class EmbeddingsFacts implements FactReader {
  #isWhole = false;

  read(part: JsonObject): void {
    this.#isWhole = arrayIn(part['data']).length > 0 && !isObject(part['error']);
  }

  end(): void {
    // Embeddings are never a stream.
  }

  facts(): RecordedAnswerFacts {
    return { finishReason: null, hasToolCalls: false, hasEncryptedContent: false, isWhole: this.#isWhole };
  }
}

function arrayIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function objectsIn(value: unknown): JsonObject[] {
  return arrayIn(value).filter(isObject);
}

// The JSON texts of the ids and timestamps in one rendered answer.

/** The exchange for which an answer is rendered. */
export interface Issue {
  readonly exchangeId: string;
  /** Unix seconds. */
  readonly createdAt: number;
  /** Unix seconds; default: `createdAt`. */
  readonly completedAt?: number;
}

/** A value that is issued anew: `item` is the index of an output item's id among those of the answer. */
export type IssuedValue = 'answerId' | 'createdAt' | 'completedAt' | number;

/** The dialects whose answers can be reissued. */
export type ReissuedDialect = 'chat' | 'responses' | 'messages' | 'embeddings';

/** The id of the answer, in the form of the ids that the gateway generates for exchanges. */
export function answerIdOf(dialect: ReissuedDialect, exchangeId: string, original: string): string {
  switch (dialect) {
    case 'chat':
      return completionIdOf(exchangeId);
    case 'responses':
      return responseIdOf(exchangeId);
    case 'messages':
      return messageIdOf(exchangeId);
    case 'embeddings':
      return `${/^[a-z]+[-_]/i.exec(original)?.[0] ?? 'embd-'}${exchangeId.replaceAll('-', '')}`;
  }
}

/**
 * Output items' ids in the form of input-items.ts: the prefix of the original id's kind, the response, and a number. Equal
 * ids stay equal and different ids stay different.
 */
export class ItemIds {
  readonly #byOriginal = new Map<string, number>();
  readonly #items: { readonly kind: string; readonly place: number }[] = [];
  readonly #places = new Set<number>();
  #next = 0;

  get count(): number {
    return this.#items.length;
  }

  /** @param place index of the item in the response's output, where it is known */
  indexOf(original: string, place: unknown): number {
    const known = this.#byOriginal.get(original);
    if (known !== undefined) return known;
    const index = this.#items.length;
    this.#byOriginal.set(original, index);
    this.#items.push({ kind: /^([a-z]+)_/.exec(original)?.[1] ?? 'item', place: this.#freePlace(place) });
    return index;
  }

  texts(exchangeId: string): string[] {
    const root = exchangeId.replaceAll('-', '');
    return this.#items.map(({ kind, place }) => `"${kind}_${root}_${place}"`);
  }

  #freePlace(wanted: unknown): number {
    let place = this.#next;
    if (typeof wanted === 'number' && Number.isSafeInteger(wanted) && wanted >= 0 && !this.#places.has(wanted)) {
      place = wanted;
    } else {
      while (this.#places.has(place)) place += 1;
      this.#next = place + 1;
    }
    this.#places.add(place);
    return place;
  }
}
