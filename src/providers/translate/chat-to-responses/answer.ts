import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';
import { type ChatError, errorIn } from './chat-delta.ts';
import type { ResponseObject, ResponseShell } from './response-object.ts';
import { createChatStreamTranslator } from './stream.ts';

export type TranslatedAnswer =
  | { readonly ok: true; readonly response: ResponseObject }
  /** The provider returned an object that is not an answer: 502 for the client. */
  | { readonly ok: false; readonly error: ChatError };

/**
 * A whole chat completion as a finished response. The same completion and shell always give the same bytes.
 *
 * `finish_reason` `length` and `content_filter` make it `incomplete`; one that ends an answer (finish-reasons.ts), or
 * none, makes it `completed`. With any other it is not an answer.
 *
 * @param completedAt unix seconds
 */
export function responseFromChat(completion: unknown, shell: ResponseShell, completedAt: number): TranslatedAnswer {
  const chunk = asOneChunk(completion);
  if (!isObject(completion) || chunk === undefined) {
    const error = isObject(completion) ? errorIn(completion) : undefined;
    const message = `Provider '${shell.provider}' gave an answer without a choice.`;
    return { ok: false, error: error ?? { code: 'provider_error', message } };
  }
  const translator = createChatStreamTranslator(shell);
  translator.push(chunk);
  translator.finish({ completedAt, endMarker: true });
  const response = translator.snapshot();
  if (response.error === null) return { ok: true, response };
  const { error } = response;
  return { ok: false, error: error.code === 'stream_incomplete' ? interrupted(shell.provider) : error };
}

function interrupted(provider: string): ChatError {
  const message = `The provider '${provider}' gave an answer that was interrupted before it was complete.`;
  return { code: 'answer_incomplete', message };
}

/** A whole answer as a stream with a single chunk. */
function asOneChunk(completion: unknown): JsonObject | undefined {
  if (!isObject(completion) || !Array.isArray(completion['choices'])) return undefined;
  const choice: unknown = completion['choices'][0];
  if (!isObject(choice) || !isObject(choice['message'])) return undefined;
  const { message } = choice;
  const calls = message['tool_calls'];
  const delta = Array.isArray(calls)
    ? { ...message, tool_calls: calls.filter(isObject).map((call, index) => ({ ...call, index })) }
    : message;
  return {
    model: completion['model'],
    usage: completion['usage'],
    service_tier: completion['service_tier'],
    choices: [{ index: 0, delta, logprobs: choice['logprobs'], finish_reason: choice['finish_reason'] }],
  };
}
