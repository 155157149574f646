/** How a client is talked to where its dialect has a say: OpenAI's way, or Anthropic's. */
import { messagesErrorBody } from '../commands/messages/error-object.ts';
import type { Refusal } from '../commands/refusal.ts';

export interface Manners {
  errorBody(refusal: Refusal, requestId: string | undefined): object;
  /** The headers of an answer, of which `x-request-id` is one. */
  headers(headers: Record<string, string>): Record<string, string>;
}

const openAi: Manners = {
  errorBody: (refusal) => refusal.envelope(),
  headers: (headers) => headers,
};

const anthropic: Manners = {
  errorBody: messagesErrorBody,
  // Anthropic's clients look for the id of a request under this name.
  headers(headers) {
    const id = headers['x-request-id'];
    return id === undefined ? headers : { ...headers, 'request-id': id };
  },
};

const MESSAGES_PATH = /^\/v1\/messages(?:[/?]|$)/;
const MODELS_PATH = /^\/v1\/models(?:[/?]|$)/;

/** Goes by the address, so that a request that no route was found for, or that may not come in, is answered alike. */
export function mannersOf(request: { readonly url: string; readonly headers: object }): Manners {
  if (MESSAGES_PATH.test(request.url)) return anthropic;
  return MODELS_PATH.test(request.url) && isAnthropicClient(request) ? anthropic : openAi;
}

/** Both OpenAI and Anthropic list models under `/v1/models`; only clients of the latter send a version. */
export function isAnthropicClient({ headers }: { readonly headers: object }): boolean {
  return 'anthropic-version' in headers;
}
