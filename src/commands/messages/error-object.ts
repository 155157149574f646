/** An error in the form of Anthropic's API ("Errors"). */
import type { Refusal } from '../refusal.ts';

export interface MessagesError {
  readonly type: string;
  readonly message: string;
  /** Members of OpenAI's error envelope that Anthropic's form does not have. */
  readonly details?: Readonly<Record<string, unknown>>;
}

export function messagesError(refusal: Refusal): MessagesError {
  const { code, param, provider, message } = refusal;
  const details = {
    ...(code === null ? {} : { error_code: code }),
    ...(param === null ? {} : { param }),
    ...(provider === undefined ? {} : { provider }),
  };
  const type = errorType(refusal);
  return Object.keys(details).length === 0 ? { type, message } : { type, message, details };
}

/** The body of an error answer, and the data of an `error` event. */
export function messagesErrorBody(refusal: Refusal, requestId?: string): object {
  const body = { type: 'error', error: messagesError(refusal) };
  return requestId === undefined ? body : { ...body, request_id: requestId };
}

function errorType({ type, status, provider }: Refusal): string {
  if (type === 'guardrail_error') return type;
  switch (status) {
    case 401:
      return 'authentication_error';
    case 403:
      return 'permission_error';
    case 404:
      return 'not_found_error';
    case 413:
      return 'request_too_large';
    case 429:
      return 'rate_limit_error';
    case 503:
    case 529:
      return provider === undefined ? 'api_error' : 'overloaded_error';
    default:
      return status < 500 ? 'invalid_request_error' : 'api_error';
  }
}
