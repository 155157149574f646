/**
 * The code of a provider's error in the values that clients act on: some providers put into the type, or only into the
 * message, what OpenAI puts into the code.
 */
export function errorCodeOf(error: { readonly [member: string]: unknown }): string | undefined {
  const { code, type, message } = error;
  if (typeof code === 'string' && code !== '' && !isNumber(code)) return code;
  if (type === 'exceed_context_size_error') return 'context_length_exceeded';
  if (type === 'insufficient_quota') return 'insufficient_quota';
  if (typeof message === 'string' && tooLong.test(message)) return 'context_length_exceeded';
  return typeof code === 'number' || (typeof code === 'string' && code !== '') ? String(code) : undefined;
}

/** Messages of vLLM, llama.cpp, Anthropic and most others for an input that exceeds the model's context. */
const tooLong =
  /maximum context length|exceeds? the (?:available |model's )?context (?:size|window|length)|prompt is too long/i;

function isNumber(code: string): boolean {
  return /^\d+$/.test(code);
}
