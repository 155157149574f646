/** How a failure in mid-stream is told, so that clients know whether and when to try again. */

export interface StreamFailure {
  /** One of the error envelope's types. */
  readonly type: string;
  /** Null when nobody gave one: it is then made of the type. */
  readonly code: string | null;
  readonly message: string;
  /** Left out when the gateway itself failed. */
  readonly provider?: string | undefined;
  /** How long to wait before the next try, when somebody said so. */
  readonly retryAfterSeconds?: number | undefined;
}

/**
 * The code and the sentence by which clients decide. Codex gives up on `context_length_exceeded` and
 * `insufficient_quota`, tries again on anything else, and reads how long to wait for out of the words
 * "try again in 1.5s" when the code is `rate_limit_exceeded`.
 */
export function failureForClients(failure: StreamFailure): { readonly code: string; readonly message: string } {
  const { type, message, retryAfterSeconds } = failure;
  const limited = type === 'rate_limit_error' && failure.code !== 'insufficient_quota';
  const code = limited ? 'rate_limit_exceeded' : (failure.code ?? type);
  if (!limited || retryAfterSeconds === undefined || /try again in/i.test(message)) return { code, message };
  const seconds = Math.round(retryAfterSeconds * 10) / 10;
  return { code, message: `${message.replace(/[.\s]+$/, '')}. Please try again in ${seconds}s.` };
}

/** A provider whose stream ends before its answer does. */
export function streamCutOff(provider: string): StreamFailure & { readonly code: string } {
  const message = `The provider '${provider}' ended its stream before the answer was complete.`;
  return { type: 'provider_error', code: 'stream_incomplete', message, provider };
}

/** A provider that ends its answer with the finish reason `error` and says no more. */
export function failedWithoutWord(provider: string): StreamFailure {
  const message = `The provider '${provider}' ended its answer with an error and did not say which.`;
  return { type: 'provider_error', code: null, message, provider };
}

/** The envelope's type for a code that a provider put into its stream. */
export function typeOfCode(code: string): string {
  return code === 'rate_limit_exceeded' || code === 'insufficient_quota' ? 'rate_limit_error' : 'provider_error';
}
