/** The model routes: each passes its body's bytes to the exchange in its own dialect. */

import type { ExchangeDialect } from '../../commands/exchange/dialect.ts';
import type { Client } from '../../commands/model-request/client.ts';
import type { ModelRequest } from '../../commands/model-request/model-request.ts';
import type { Routes } from '../api/route-schema.ts';
import type { OpenExchanges } from '../open-exchanges.ts';

export function registerModelRoutes(
  app: Routes,
  options: {
    readonly dialects: readonly ExchangeDialect[];
    readonly exchanges: OpenExchanges;
    readonly run: (dialect: ExchangeDialect, request: ModelRequest, client: Client) => Promise<void>;
  },
): void {
  for (const dialect of options.dialects) {
    app.post(dialect.endpoint, { config: { access: 'any-key', limits: 'exchange' } }, (request, reply) =>
      options.exchanges.run(request, reply, (modelRequest, client) => options.run(dialect, modelRequest, client)),
    );
  }
}
