/** Formats of errors and headers that depend on the client's dialect: OpenAI's or Anthropic's. */
import { messagesErrorBody } from '../commands/messages/error-object.ts';
import type { Refusal } from '../commands/refusal.ts';

export interface ClientErrorFormat {
  errorBody(refusal: Refusal, requestId: string | undefined): object;
  /** The headers of an answer, including `x-request-id`. */
  headers(headers: Record<string, string>): Record<string, string>;
}

const openAi: ClientErrorFormat = { errorBody: (refusal) => refusal.envelope(), headers: (headers) => headers };

const anthropic: ClientErrorFormat = {
  errorBody: messagesErrorBody,
  // Anthropic's clients read the id of a request from this header.
  headers(headers) {
    const id = headers['x-request-id'];
    return id === undefined ? headers : { ...headers, 'request-id': id };
  },
};

const MESSAGES_PATH = /^\/v1\/messages(?:[/?]|$)/;
const MODELS_PATH = /^\/v1\/models(?:[/?]|$)/;

/** Chosen by the address, so that it also works for an unknown route and before authentication. */
export function clientErrorFormatOf(request: { readonly url: string; readonly headers: object }): ClientErrorFormat {
  if (MESSAGES_PATH.test(request.url)) return anthropic;
  return MODELS_PATH.test(request.url) && isAnthropicClient(request) ? anthropic : openAi;
}

/** OpenAI and Anthropic both list models at `/v1/models`; only Anthropic's clients send a version header. */
export function isAnthropicClient({ headers }: { readonly headers: object }): boolean {
  return 'anthropic-version' in headers;
}
