/** The facts of a recorded answer that decide whether it may be served again. */
import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../../../providers/translate/json.ts';
import { isCarried } from '../../../providers/translate/responses-to-chat/carried-reasoning.ts';
import type { ReissuedDialect } from './issued-texts.ts';

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
