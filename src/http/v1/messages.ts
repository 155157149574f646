/** `POST /v1/messages/count_tokens`. `POST /v1/messages` is a model route like the others. */
import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import { countTokensDialect, estimatedCount } from '../../commands/exchange/dialects/messages/messages-dialect.ts';
import { countTokensRequestSchema } from '../../commands/messages/messages-request.ts';
import type { Caller, Client, ModelRequest } from '../../commands/model-request/model-request.ts';
import type { Reach, Target } from '../../commands/model-request/routing-types.ts';
import * as answers from '../answer-schemas.ts';
import { exchangeRoute } from '../api/declare.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { bodyOf, callerOf } from '../server.ts';
import { anthropicRequestHeaders, providerErrors } from './declare.ts';

export interface CountTokensOptions {
  readonly router: Reach;
  /** Whether guardrails read the requests of the caller to this model. */
  readonly isGuarded: (caller: Caller, target: Target) => boolean;
  /** @throws Refusal 429 */
  readonly admitRequest: (caller: Caller) => void;
  readonly exchanges: OpenExchanges;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
}

const countMessageTokens = exchangeRoute('countMessageTokens', 'Count the tokens of a message request', {
  description: 'Counted by the provider where it can, else estimated by the gateway.',
  tag: 'models',
  requestHeaders: anthropicRequestHeaders,
  body: countTokensRequestSchema,
  example: { model: 'anthropic/claude-sonnet-4-5', messages: [{ role: 'user', content: 'Hello' }] },
  response: { 200: jsonAnswer('The count', answers.tokenCount) },
  errors: providerErrors,
});

export function registerCountTokens(app: Routes, options: CountTokensOptions): void {
  const { router, isGuarded, admitRequest, exchanges, run } = options;
  app.post(countTokensDialect.endpoint, countMessageTokens, async (request, reply) => {
    const caller = callerOf(request);
    const estimate = await estimatedCount(bodyOf(request), caller, router, (target) => isGuarded(caller, target));
    if (estimate !== undefined) {
      admitRequest(caller);
      return { input_tokens: estimate };
    }
    return exchanges.run(request, reply, (modelRequest, client) => run(countTokensDialect, modelRequest, client));
  });
}
