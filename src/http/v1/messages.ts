/** `POST /v1/messages/count_tokens`. `POST /v1/messages` is a model route like the others. */

import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import { estimatedCount } from '../../commands/exchange/dialects/messages/count-tokens.ts';
import { countTokensDialect } from '../../commands/exchange/dialects/messages/count-tokens-dialect.ts';
import type { Caller } from '../../commands/model-request/caller.ts';
import type { Client } from '../../commands/model-request/client.ts';
import type { ModelRequest } from '../../commands/model-request/model-request.ts';
import type { Reach } from '../../commands/model-request/routing-types.ts';
import type { Routes } from '../api/route-schema.ts';
import type { OpenExchanges } from '../open-exchanges.ts';
import { bodyOf, callerOf } from '../server.ts';

export interface CountTokensOptions {
  readonly router: Reach;
  /** @throws Refusal 429 */
  readonly admitRequest: (caller: Caller) => void;
  readonly exchanges: OpenExchanges;
  readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
}

export function registerCountTokens(app: Routes, options: CountTokensOptions): void {
  const { router, admitRequest, exchanges, run } = options;
  app.post(
    countTokensDialect.endpoint,
    { config: { access: 'any-key', limits: 'exchange' } },
    async (request, reply) => {
      const estimate = await estimatedCount(bodyOf(request), callerOf(request), router);
      if (estimate !== undefined) {
        admitRequest(callerOf(request));
        return { input_tokens: estimate };
      }
      return exchanges.run(request, reply, (modelRequest, client) => run(countTokensDialect, modelRequest, client));
    },
  );
}
