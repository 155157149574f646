/** The meaning of a chat completion's finish reason, in the variants that servers send. */

/** `interrupted`: the answer has ended, but is not whole. */
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

/** An unknown reason is an interruption, like `abort`, `cancelled` and `insufficient_system_resource`. */
export function answerEnd(finishReason: string): ChatAnswerEnd {
  // Gemini appends the cause after a colon.
  const [reason = ''] = finishReason.toLowerCase().split(':', 1);
  return ends.get(reason) ?? 'interrupted';
}
