/** `POST /v1/messages/count_tokens` where the provider can count: forwarded, and recorded like any request. */
import { parseCountTokensRequest } from '../../../messages/messages-request.ts';
import { refusals } from '../../../refusal.ts';
import type { ExchangeDialect } from '../../dialect.ts';
import { passthroughRelay } from '../passthrough/passthrough-relay.ts';
import { readWith } from '../read-with.ts';
import { anthropicHeaders, nativeBody, speaksMessages } from './messages-dialect.ts';

export const countTokensDialect: ExchangeDialect = {
  name: 'forward',
  endpoint: '/v1/messages/count_tokens',
  mayBeFree: true,
  read: (json) => readWith(parseCountTokensRequest(json)),
  plan(input) {
    const { name, type } = input.target.provider;
    // A virtual model may have this candidate and others that can count.
    if (!speaksMessages(type)) throw refusals.unsupportedEndpoint(`The provider '${name}' does not count tokens.`);
    const headers = { 'content-type': 'application/json', accept: 'application/json' };
    return {
      kind: 'forward',
      dialect: 'forward',
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
