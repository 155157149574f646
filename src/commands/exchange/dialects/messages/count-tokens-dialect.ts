/** `POST /v1/messages/count_tokens` where the provider can count: forwarded, and recorded like any request. */

import type { JsonObject } from '../../../../providers/translate/json.ts';
import { estimateInputTokens, parseCountTokensRequest } from '../../../messages/messages-request.ts';
import type { Target } from '../../../model-request/target.ts';
import { refusals } from '../../../refusal.ts';
import { type ExchangeDialect, readWith } from '../../dialect.ts';
import { passthroughRelay } from '../passthrough/passthrough-relay.ts';
import { anthropicHeaders, nativeBody, speaksMessages } from './messages-dialect.ts';

/** Estimated, for models whose providers do not count. Undefined when a provider does. */
export function estimatedTokens(json: JsonObject, candidates: readonly Target[]): number | undefined {
  return candidates.some(({ provider }) => speaksMessages(provider.type)) ? undefined : estimateInputTokens(json);
}

export const countTokensDialect: ExchangeDialect = {
  name: 'forward',
  endpoint: '/v1/messages/count_tokens',
  mayBeFree: true,
  read: (json) => readWith(parseCountTokensRequest(json)),
  answerWithoutProvider({ json }, candidates) {
    const input_tokens = estimatedTokens(json, candidates);
    if (input_tokens === undefined) return undefined;
    return () => ({ relay: passthroughRelay(), whole: { input_tokens }, events: [] });
  },
  plan(input) {
    const { name, type } = input.target.provider;
    // A virtual model may have this candidate and others that can count.
    if (!speaksMessages(type)) throw refusals.unsupportedEndpoint(`The provider '${name}' does not count tokens.`);
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    return {
      kind: 'forward',
      dialect: 'forward',
      answer: '/v1/messages/count_tokens',
      call: {
        method: 'POST',
        path: '/messages/count_tokens',
        headers: { ...headers, ...anthropicHeaders(input.headers) },
      },
      body: nativeBody(input),
      repeatable: true,
      readsWhole: true,
      relay: () => passthroughRelay(),
    };
  },
  relayOfRecorded: () => passthroughRelay(),
};
