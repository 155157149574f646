/**
 * Translates chat completions to a provider with a dialect of its own. Chat completions are the hub: every client
 * dialect is translated to them, and from them to the provider's, so a new dialect costs one folder.
 */
import type { Dialect } from '../provider.ts';
import type { JsonObject } from './json.ts';
import type { Refused } from './refusal.ts';

export interface ChatAdapter {
  /** The provider's dialect. */
  readonly dialect: Dialect;
  /** A chat completion request in the provider's dialect. Pure: the same request gives the same bytes. */
  request(chat: JsonObject, facts: ChatRequestFacts): { readonly ok: true; readonly body: JsonObject } | Refused;
  /** A new reader for one answer, whole or streamed. */
  reader(facts: ChatAnswerFacts): ChatReader;
}

export interface ChatRequestFacts {
  /** The provider's own id of the model. */
  readonly model: string;
  readonly stream: boolean;
  /** The provider's settings by option name, as configured. */
  readonly options: Readonly<Record<string, string>>;
}

export interface ChatAnswerFacts {
  /** The provider's own id of the model, for an answer that contains none. */
  readonly model: string;
  /** Unix seconds: `created` of the completion. */
  readonly createdAt: number;
  /** `chatcmpl-…`, for a provider whose answers have no id. */
  readonly id: string;
}

/** Reads one answer of a provider as chat completions. It holds the state of that answer. */
export interface ChatReader {
  /**
   * The whole answer, parsed, as a `chat.completion` object. An error body, or an object that is no answer, is returned
   * unchanged: the caller distinguishes the two.
   */
  whole(answer: unknown): unknown;
  /**
   * The data of one event of the stream, as `chat.completion.chunk` objects. An error from the provider is one object
   * with an `error` member, in the form of OpenAI's error body. Undefined when the data is not a JSON object, so that a
   * part of the answer is missing. @param call which of parallel calls sent it
   */
  chunks(data: string, call?: string): readonly JsonObject[] | undefined;
  /** For an event without data: the last chunks when one of parallel calls has ended; `cut` when its answer is not whole. */
  endOfCall?(call: string | undefined): readonly JsonObject[] | 'cut';
  /** Whether the provider has sent its final event, so that the answer is whole. */
  readonly ended: boolean;
  /** The provider's id of the answer; undefined until it is read, and when there is none. */
  readonly answerId: string | undefined;
  /** Usage that the provider has reported so far, before a chunk contains it. Absent where it is reported at the end. */
  readonly counted?: JsonObject | null;
}
