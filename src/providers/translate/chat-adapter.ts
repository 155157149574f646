/**
 * How chat completions are asked of a provider that speaks a language of its own. Chat completions are the hub: every
 * dialect of a client is brought to them, and from them to the provider, so a new language costs one folder.
 */
import type { Dialect } from '../provider.ts';
import type { JsonObject } from './json.ts';
import type { Refused } from './refusal.ts';

export interface ChatAdapter {
  /** What is spoken to the provider. */
  readonly dialect: Dialect;
  /** A chat completion request in the provider's language. Pure: the same request gives the same bytes. */
  request(chat: JsonObject, facts: ChatRequestFacts): { readonly ok: true; readonly body: JsonObject } | Refused;
  /** A fresh reader for one answer, whole or streamed. */
  reader(facts: ChatAnswerFacts): ChatReader;
}

export interface ChatRequestFacts {
  /** The provider's own id of the model. */
  readonly model: string;
  readonly stream: boolean;
  /** The provider's settings by option name, as they are configured. */
  readonly options: Readonly<Record<string, string>>;
}

export interface ChatAnswerFacts {
  /** The provider's own id of the model, for an answer that names none. */
  readonly model: string;
  /** Unix seconds: `created` of the completion. */
  readonly createdAt: number;
  /** `chatcmpl-…`, for a provider that gives its answers no id. */
  readonly id: string;
}

/** Reads one answer of a provider as chat completions. It holds the state of that answer. */
export interface ChatReader {
  /**
   * The whole answer, parsed, as a `chat.completion` object. What is an error body, or no answer at all, is given
   * back as it is: the caller tells the two apart.
   */
  whole(answer: unknown): unknown;
  /**
   * The data of one event of the stream, as `chat.completion.chunk` objects. An error that the provider reports is one
   * object with an `error` member, in the form of OpenAI's error body. Undefined when the data is no JSON object, so that
   * a part of the answer is missing.
   */
  chunks(data: string): readonly JsonObject[] | undefined;
  /** Whether the provider has said its last word, so that the answer is whole. */
  readonly ended: boolean;
  /** The id that the provider gave the answer; undefined until it is read, and when there is none. */
  readonly answerId: string | undefined;
}
