/** The error of a failed stream, so that clients know whether and when to retry. */

export interface StreamFailure {
  /** One of the error envelope's types. */
  readonly type: string;
  /** Null when there is none: the code for clients is then derived from the type. */
  readonly code: string | null;
  readonly message: string;
  /** Undefined when the gateway itself failed. */
  readonly provider?: string | undefined;
  /** The waiting time before the next attempt, if known. */
  readonly retryAfterSeconds?: number | undefined;
}

/**
 * The code and the sentence that clients evaluate. Codex gives up on `context_length_exceeded` and
 * `insufficient_quota`, retries after any other code, and reads the waiting time from the text "try again in 1.5s" when
 * the code is `rate_limit_exceeded`.
 */
export function failureForClients(failure: StreamFailure): { readonly code: string; readonly message: string } {
  const { type, message, retryAfterSeconds } = failure;
  const limited = type === 'rate_limit_error' && failure.code !== 'insufficient_quota';
  const code = limited ? 'rate_limit_exceeded' : (failure.code ?? type);
  if (!limited || retryAfterSeconds === undefined || /try again in/i.test(message)) return { code, message };
  const seconds = Math.round(retryAfterSeconds * 10) / 10;
  return { code, message: `${message.replace(/[.\s]+$/, '')}. Please try again in ${seconds}s.` };
}

/** The failure of a provider whose stream ends before its answer. */
export function streamCutOff(provider: string): StreamFailure & { readonly code: string } {
  const message = `The provider '${provider}' ended its stream before the answer was complete.`;
  return { type: 'provider_error', code: 'stream_incomplete', message, provider };
}

/** The failure of a provider that ends its answer with the finish reason `error` and no further details. */
export function failedWithoutMessage(provider: string): StreamFailure {
  const message = `The provider '${provider}' ended its answer with an error without details.`;
  return { type: 'provider_error', code: null, message, provider };
}

/** The envelope's type for a code in a provider's stream. */
export function typeOfCode(code: string): string {
  return code === 'rate_limit_exceeded' || code === 'insufficient_quota' ? 'rate_limit_error' : 'provider_error';
}
