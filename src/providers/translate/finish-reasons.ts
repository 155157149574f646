/** What the finish reason of a chat completion says about the answer, in the words that servers use for it. */

/** `interrupted`: the answer is not whole, though it ended. */
export type ChatAnswerEnd = 'stop' | 'length' | 'content_filter' | 'interrupted';

const ends: ReadonlyMap<string, ChatAnswerEnd> = new Map([
  ['stop', 'stop'],
  ['tool_calls', 'stop'],
  ['function_call', 'stop'],
  ['tool_use', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['content_filter', 'content_filter'],
  ['sensitive', 'content_filter'],
  ['safety', 'content_filter'],
  ['refusal', 'content_filter'],
]);

/** A reason that is not known is an interruption: `abort`, `cancelled`, `insufficient_system_resource` are. */
export function answerEnd(finishReason: string): ChatAnswerEnd {
  // Gemini puts the cause behind a colon.
  const [reason = ''] = finishReason.toLowerCase().split(':', 1);
  return ends.get(reason) ?? 'interrupted';
}
