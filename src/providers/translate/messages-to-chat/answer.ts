import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';
import type { Message, MessageShell } from './message-object.ts';
import { createMessageStreamTranslator } from './stream.ts';

/**
 * A whole chat completion as a message; undefined when it contains no answer, or an interrupted one. The same
 * completion and shell always give the same message.
 *
 * | `finish_reason` | `stop_reason` |
 * |---|---|
 * | `length` | `max_tokens` |
 * | `content_filter`, or a refusal in its own member | `refusal` |
 * | anything else, with a tool call | `tool_use` |
 * | anything else | `stop_sequence` when the provider names the sequence, else `end_turn` |
 */
export function messageFromChat(completion: unknown, shell: MessageShell): Message | undefined {
  const chunk = asOneChunk(completion);
  if (chunk === undefined) return undefined;
  const translator = createMessageStreamTranslator(shell);
  translator.push(chunk);
  if (translator.interrupted) return undefined;
  translator.finish();
  return translator.message();
}

/** A whole answer as a stream with a single chunk. */
function asOneChunk(completion: unknown): JsonObject | undefined {
  if (!isObject(completion) || !Array.isArray(completion['choices'])) return undefined;
  const choice: unknown = completion['choices'][0];
  if (!isObject(choice) || !isObject(choice['message'])) return undefined;
  const { message, index: _index, ...rest } = choice;
  const calls = message['tool_calls'];
  const delta = Array.isArray(calls)
    ? { ...message, tool_calls: calls.filter(isObject).map((call, index) => ({ ...call, index })) }
    : message;
  return { model: completion['model'], usage: completion['usage'], choices: [{ ...rest, index: 0, delta }] };
}
